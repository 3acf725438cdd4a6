// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/confine"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Where a process is decides what groups it can make, so tests about that are carried out by a process of their own:
// this binary again, in a place that the test made.
const planVariable = "CGROUP_TEST_PLAN"

// plan is what such a process does.
type plan struct {
	// Before are done first.
	Before []confine.Step
	Parent string
	// CpusetDir is the host's.
	CpusetDir string
	Limits    *proto.Limits
	// Empty starts nothing in the groups.
	Empty bool
	// Realtime gives this thread, and what it starts, a real-time priority.
	Realtime bool
	// Visit enters groups as if there were no clone3.
	Visit bool
	// Scope asks a systemd for a scope, for so long, and makes no group in it.
	Scope time.Duration
}

// outcome is what came of it.
type outcome struct {
	// Error is that of Create or SetLimits, Refused that it is the host's.
	Error   string
	Refused bool

	Group  procstats.Cgroup
	Place  Placement
	Notes  []string
	Limits []record.Limit
	// Files are the limits as the kernel shows them, by file.
	Files map[string]string
	// Own is the cgroup of the process itself at the end.
	Own string
	// Task is /proc/PID/cgroup of what was started in the groups.
	Task string
}

func TestMain(m *testing.M) {
	confine.Main()
	switch text := os.Getenv(planVariable); text {
	case "":
		code, err := runTests(m)
		if err != nil {
			panic(err)
		}
		os.Exit(code)
	case "task":
		// The process in the group: it says where it is and waits to be killed.
		content, err := os.ReadFile("/proc/self/cgroup")
		fmt.Printf("%s%v\n\n", content, err)
		for {
			// Without a signal to wait for, the Go runtime would take a wait for a deadlock.
			_ = unix.Pause()
		}
	case "forks":
		// When asked to begin it starts others all the time.
		_, _ = os.Stdin.Read(make([]byte, 1)) // an end is a beginning too
		for {
			attributes := &syscall.ProcAttr{Env: []string{planVariable + "=task"}}
			if _, err := syscall.ForkExec("/proc/self/exe", []string{"task"}, attributes); err != nil {
				panic(err)
			}
		}
	default:
		var p plan
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			panic(err)
		}
		result, err := p.carryOut()
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(result)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		syscall.Exit(0) // with -race, os.Exit sleeps for a second
	}
}

func (p plan) carryOut() (done *outcome, err error) {
	runtime.LockOSThread()
	host := kernel.HostFS()
	if p.Realtime {
		const roundRobin = 2
		attributes := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: roundRobin, Priority: 1}
		if err := unix.SchedSetAttr(0, attributes, 0); err != nil {
			return nil, err
		}
	}
	if p.Scope > 0 {
		return p.enterScope(host)
	}
	g, err := Create(Options{
		FS: host, ID: fmt.Sprint(os.Getpid()), Parent: p.Parent, CpusetDir: p.CpusetDir,
		Cpuset: p.Limits.GetCpuset() != "", CPU: p.Limits != nil && (p.Limits.CpuCores != nil || p.Limits.CpuWeight != nil),
	})
	if err != nil {
		return &outcome{Error: err.Error()}, nil
	}
	defer func() { err = errors.Join(err, g.Remove()) }()
	result := &outcome{Group: g.Cgroup, Place: g.Placement}
	result.Limits, err = g.SetLimits(host, p.Limits)
	result.Notes = g.Notes
	if err != nil {
		result.Error, result.Refused = err.Error(), errors.Is(err, errors.ErrUnsupported)
		return result, nil
	}
	result.Files = readFiles(g)
	if p.Empty {
		return result, nil
	}
	if result.Task, err = runTask(g, p.Visit); err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/thread-self/cgroup")
	result.Own = string(own)
	return result, err
}

func (p plan) enterScope(host kernel.FS) (*outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.Scope)
	defer cancel()
	s, err := newScope(ctx, Options{FS: host, ID: fmt.Sprint(os.Getpid())})
	result := &outcome{Group: procstats.Cgroup{V2: filepath.Join(s.parent, s.task)}}
	if err != nil {
		result.Error = err.Error()
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	result.Own = string(own)
	return result, err
}

func readFiles(g *Group) map[string]string {
	files := map[string]string{}
	for _, name := range []string{
		"memory.max", "memory.high", "memory.swap.max", "memory.oom.group", "cpu.max", "cpu.weight", "cpuset.cpus", "pids.max", "io.max",
		"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares",
		"blkio.throttle.write_bps_device", "blkio.throttle.read_iops_device",
	} {
		for _, dir := range g.Folders() {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				files[name] = strings.TrimSpace(string(text))
			}
		}
	}
	return files
}

// runTask starts a process in the groups, as the launcher does, and empties them again.
func runTask(g *Group, visit bool) (string, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer reader.Close()
	attributes := &syscall.ProcAttr{
		Env: []string{planVariable + "=task"}, Files: []uintptr{0, writer.Fd(), 2},
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	leave, err := g.Enter(attributes.Sys, visit)
	if err != nil {
		return "", err
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"task"}, attributes)
	err = errors.Join(err, leave(), writer.Close())
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	for !strings.HasSuffix(text.String(), "\n\n") {
		if _, err := io.CopyN(&text, reader, 1); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if g.Exists() {
		if err := g.Kill(); err != nil {
			return "", err
		}
	} else if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return "", err
	}
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		return "", err
	}
	return text.String(), g.Empty(ctx)
}

// execute carries a plan out as a user (0 for root), in the groups at a path of all hierarchies ("" for those of the
// test), with the environment added.
func execute(t *testing.T, p plan, uid int, path string, env ...string) *outcome {
	t.Helper()
	cmd := p.command(t, uid, env)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	startIn(t, cmd, path)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	result := &outcome{}
	if err := json.Unmarshal(stdout.Bytes(), result); err != nil {
		t.Fatalf("%v\n%s", err, stdout.String())
	}
	return result
}

// command is this binary that carries out the plan.
func (p plan) command(t *testing.T, uid int, env []string) *exec.Cmd {
	t.Helper()
	text := testkit.Value(json.Marshal(p))(t)
	cmd := exec.Command(copied)
	cmd.Dir = "/"
	cmd.Env = append([]string{planVariable + "=" + string(text)}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if len(p.Before) > 0 {
		must(t, confine.Wrap(cmd, copied, confine.Options{Steps: p.Before, UID: uid, GID: uid}))
	} else if uid != os.Geteuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	return cmd
}

// copied is a copy of this binary that every user can reach. It is made before any test: a file that is open for
// writing, in a child of another test too, cannot be executed.
var copied string

func runTests(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "cgroup")
	if err != nil {
		return 1, err
	}
	copied = filepath.Join(dir, "test")
	content, err := os.ReadFile("/proc/self/exe")
	err = errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(copied, content, 0o755))
	// Tests mostly wait for processes of this binary.
	if err = errors.Join(err, flag.Set("test.parallel", "6")); err == nil {
		code = m.Run()
	}
	return code, errors.Join(err, os.RemoveAll(dir))
}

// startIn starts a command in the groups at a path of all hierarchies.
func startIn(t *testing.T, cmd *exec.Cmd, path string) {
	t.Helper()
	if path == "" {
		must(t, cmd.Start())
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g := &Group{Cgroup: procstats.Cgroup{V1: map[string]string{}}}
	var err error
	// Of this thread: the first one, whose groups are those of the process, may be in those of another test.
	if g.executor, err = kernel.FindCgroup(kernel.HostFS(), unix.Gettid()); err != nil {
		t.Fatal(err)
	}
	for controller, root := range roots(t) {
		if controller == "" {
			g.V2 = filepath.Join(root, path)
		} else {
			g.V1[controller] = filepath.Join(root, path)
		}
	}
	leave := testkit.Value(g.Enter(cmd.SysProcAttr, false))(t)
	must(t, errors.Join(cmd.Start(), leave()))
}

// roots maps the v1 controllers that tasks are put into, and "" for v2, to where they are mounted.
func roots(t *testing.T) map[string]string {
	t.Helper()
	mounts := testkit.Value(kernel.CgroupMounts(kernel.HostFS()))(t)
	points := map[string]string{}
	for _, mount := range mounts {
		if mount.Version == 2 {
			points[""] = mount.Point
		}
		for _, controller := range mount.Controllers {
			if mount.Version == 1 && isOurs(controller) {
				points[controller] = mount.Point
			}
		}
	}
	return points
}

// layout is "v1", "v2" or "hybrid".
func layout(t *testing.T) string {
	t.Helper()
	points := roots(t)
	_, v2 := points[""]
	switch {
	case v2 && len(points) == 1:
		return "v2"
	case v2:
		return "hybrid"
	case len(points) > 0:
		return "v1"
	}
	t.Skip("no cgroup hierarchy is mounted here")
	return ""
}

// version says on which version of cgroups a controller is to be had here: 1, 2, or 0 for neither.
func version(t *testing.T, controller string) int {
	t.Helper()
	mounts, err := kernel.CgroupMounts(kernel.HostFS())
	switch {
	case err != nil:
		t.Fatal(err)
	case mountedV1(mounts, nameV1(controller)):
		return 1
	}
	if v2, _ := kernel.MountOf(mounts, ""); slices.Contains(v2.Controllers, controller) {
		return 2
	}
	return 0
}

// needRoot skips where the test may not make groups.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making groups and entering them takes root")
	}
	for controller, root := range roots(t) {
		if err := unix.Access(root, unix.W_OK); err != nil {
			t.Skipf("groups cannot be made in %s (%s): %v", root, cmp.Or(controller, "v2"), err)
		}
	}
}

// newPath makes a group in all hierarchies and returns its path within them. With the test it is removed, and it is an
// error if anything was left in it.
func newPath(t *testing.T, path string) string {
	t.Helper()
	path = fmt.Sprintf("%s-%d-%d", path, os.Getpid(), time.Now().UnixNano()%1e6)
	points := roots(t)
	if mounts, err := kernel.CgroupMounts(kernel.HostFS()); err == nil {
		// Processes are not put there unless they ask for it.
		if mount, ok := kernel.MountOf(mounts, "cpuset"); ok {
			points["cpuset"] = mount.Point
		}
	}
	for controller, root := range points {
		dir := filepath.Join(root, path)
		must(t, os.Mkdir(dir, 0o755))
		if controller == "cpuset" {
			must(t, inheritCpuset(root, dir))
		}
		t.Cleanup(func() {
			left, _ := filepath.Glob(filepath.Join(dir, "tacho-*"))
			if len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			const limit, pause = time.Minute, 5 * time.Millisecond
			err := removeTree(dir)
			for began := time.Now(); errors.Is(err, unix.EBUSY) && time.Since(began) < limit; err = removeTree(dir) {
				<-time.After(pause) // its last process is ending
			}
			must(t, err)
		})
	}
	return path
}

// startTask starts a task that waits to be killed, and moves it to a group's folder. What it ends with comes in ended.
func startTask(t *testing.T, dir string) (pid int, ended <-chan error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{planVariable + "=task"}
	must(t, cmd.Start())
	end := make(chan error, 1)
	go func() { end <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // or it has ended
	must(t, write(dir, procsFile, strconv.Itoa(cmd.Process.Pid)))
	return cmd.Process.Pid, end
}

// empty ends what is left of a group, and removes it.
func empty(t *testing.T, g *Group) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	must(t, g.Empty(ctx))
}

// give hands the groups at a path to a user, as delegation does.
func give(t *testing.T, path string, uid int) {
	t.Helper()
	for _, root := range roots(t) {
		for _, name := range []string{".", procsFile, tasksFile, "cgroup.threads", subtreeControl} {
			err := os.Chown(filepath.Join(root, path, name), uid, uid)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
}

const nobody = 65534

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
