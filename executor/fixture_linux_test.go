// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tachograph/tacho/executor"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

const (
	// markVariable tells the processes of one fixture from all others.
	markVariable = "TACHO_TEST_MARK"
	// soon is how long anything may take that is expected to happen at all.
	soon = 60 * time.Second
)

// fixtures counts them, for names.
var fixtures atomic.Int64

// TestMain lets the test self() be the executors under test. Tests mostly wait for processes, so more of them run at a
// time than there are CPUs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		syscall.Exit(executor.Main("test")) // with -race, os.Exit sleeps for a second
	}
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "after all tests, with all clients closed:", err)
		code = 1
	}
	os.Exit(code)
}

// self is the test binary. As long as it is not on the disk, its mapped pages count as dirty memory of its processes.
var self = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	file, err := os.Open(path)
	if err == nil {
		err = errors.Join(file.Sync(), file.Close())
	}
	if err != nil {
		panic(err)
	}
	return path
})

// fixture is an executor under test, with a folder for whatever its task writes.
type fixture struct {
	*client.Client
	t    testing.TB
	dir  string
	mark string
	// out and err are what the task writes to.
	out, err string
	launched *proto.LaunchResponse
}

// start starts an executor. At the end of the test nothing may be left of it and its task.
func start(t testing.TB) *fixture {
	t.Helper()
	return startWith(t, func(*client.Options) {})
}

func startWith(t testing.TB, change func(*client.Options)) *fixture {
	t.Helper()
	// Short: the path of a unix socket is limited to 107 bytes. For everybody: tasks have other users.
	dir, err := os.MkdirTemp("/tmp", "tacho")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	f := &fixture{
		t: t, dir: dir, mark: fmt.Sprintf("%d-%d", os.Getpid(), fixtures.Add(1)),
		out: filepath.Join(dir, "out"), err: filepath.Join(dir, "err"),
	}
	options := client.Options{Binary: self(), RuntimeDir: filepath.Join(f.dir, "run"), ID: "test-" + f.mark}
	change(&options)
	if f.Client, err = client.Start(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f
}

// close ends the executor and whatever it still runs, and holds that nothing is left.
func (f *fixture) close() {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if f.alive() {
		if f.launched != nil {
			if err := f.Stop(ctx, 9, 0); err != nil && !errors.Is(err, client.ErrLost) {
				f.t.Error(err)
			}
		}
		if err := f.Shutdown(ctx); err != nil {
			f.t.Error(err)
		}
	}
	if err := f.Close(); err != nil {
		f.t.Error(err)
	}
	f.noneLeft()
}

func (f *fixture) alive() bool {
	select {
	case <-f.Lost():
		return false
	default:
		return true
	}
}

// noneLeft holds that no process, cgroup or runtime folder is left; what is found is removed for the tests after.
func (f *fixture) noneLeft() {
	f.t.Helper()
	for _, pid := range f.processes() {
		f.t.Errorf("left behind: process %d %q", pid, commandLine(pid))
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
	for _, dir := range f.folders() {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			f.t.Errorf("left behind: cgroup %s", dir)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(f.dir, "run")); err != nil || len(entries) > 0 {
		f.t.Errorf("left behind in the runtime folder: %v, %v", entries, err)
	}
}

// folders lists the task's cgroup folders.
func (f *fixture) folders() []string {
	dirs := []string{}
	if g := f.launched.GetCgroup(); g.GetOwned() {
		for _, dir := range g.GetV1() {
			dirs = append(dirs, dir)
		}
		if g.GetV2() != "" {
			dirs = append(dirs, g.GetV2())
		}
	}
	return dirs
}

// processes lists the live processes of the fixture's task, by their mark.
func (f *fixture) processes() []int {
	var pids []int
	folders := testkit.Value(filepath.Glob("/proc/[0-9]*"))(f.t)
	for _, folder := range folders {
		// A zombie has no environment any more.
		environ, err := os.ReadFile(filepath.Join(folder, "environ"))
		if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), markVariable+"="+f.mark) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(folder)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func commandLine(pid int) string {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return err.Error()
	}
	return string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
}

// request is a task that runs a shell script.
func (f *fixture) request(script string) *proto.LaunchRequest {
	return &proto.LaunchRequest{
		Id: "test-" + f.mark, Command: "/bin/sh", Args: []string{"-c", script}, Dir: f.dir,
		Env:    []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", markVariable + "=" + f.mark},
		Stdio:  &proto.Stdio{Mode: proto.Stdio_MODE_PATHS, StdoutPath: f.out, StderrPath: f.err},
		Cgroup: &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_AUTO},
		Record: &proto.RecordOptions{},
	}
}

// run launches a shell script.
func (f *fixture) run(script string, changes ...func(*proto.LaunchRequest)) *proto.LaunchResponse {
	f.t.Helper()
	request := f.request(script)
	for _, change := range changes {
		change(request)
	}
	launched := testkit.Value(f.Launch(f.t.Context(), request))(f.t)
	f.launched = launched
	return launched
}

// wait waits for the end of the task.
func (f *fixture) wait() (*proto.Exit, *record.Record) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), soon)
	defer cancel()
	exit, final, err := f.Wait(ctx)
	must(f.t, err)
	return exit, final
}

// stdout is what the task has written so far.
func (f *fixture) stdout() string {
	text, err := os.ReadFile(f.out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	return string(text)
}

// expect waits until the task has written a text.
func (f *fixture) expect(text string) {
	f.t.Helper()
	f.eventually(soon, "the task has written "+text, func() bool { return strings.Contains(f.stdout(), text) })
}

// eventually waits until something holds, and returns how long that took.
func (f *fixture) eventually(within time.Duration, what string, holds func() bool) time.Duration {
	f.t.Helper()
	began := time.Now()
	for pause := time.Millisecond; !holds(); pause = min(2*pause, 50*time.Millisecond) { // a look can be at all of /proc
		if time.Since(began) > within {
			f.t.Fatalf("after %s it still does not hold that %s", within, what)
		}
		<-time.After(pause)
	}
	return time.Since(began)
}

// withoutCgroup is a task that runs in no cgroup.
func withoutCgroup(r *proto.LaunchRequest) {
	r.Cgroup = &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_NONE}
}

// withCgroup is a task that runs where the best place is.
func withCgroup(*proto.LaunchRequest) {}

// eachPlacement runs a test in a cgroup and in none.
func eachPlacement(t *testing.T, test func(t *testing.T, place func(*proto.LaunchRequest))) {
	t.Run("in a cgroup", func(t *testing.T) {
		needCgroup(t)
		test(t, withCgroup)
	})
	t.Run("without a cgroup", func(t *testing.T) { test(t, withoutCgroup) })
}

// cgroups says whether this user can have a cgroup, and why not, once that is known.
var cgroups struct {
	sync.Mutex
	tried  bool
	whyNot string
}

// needCgroup skips if this user can have none.
func needCgroup(t *testing.T) {
	t.Helper()
	cgroups.Lock()
	defer cgroups.Unlock()
	if !cgroups.tried {
		f := start(t)
		launched := f.run("exit 0")
		f.wait()
		cgroups.tried = true
		if launched.GetCgroup().GetPlacement() == "none" {
			cgroups.whyNot = "this user can be given no cgroup here: " + strings.Join(launched.GetNotes(), "; ")
		}
	}
	if cgroups.whyNot != "" {
		t.Skip(cgroups.whyNot)
	}
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
