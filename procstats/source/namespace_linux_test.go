// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// namespaceEnv holds the mount options of the procfs that the test within a namespace gets.
const namespaceEnv = "TACHO_TEST_NAMESPACE"

// inNamespace runs the calling test again, as the first process of PID and mount namespaces of its own, and returns
// the procfs there; ok is false in the caller, which is done then. Whatever the inner test starts ends with it.
func inNamespace(t *testing.T, options string) (root kernel.FS, ok bool) {
	t.Helper()
	if inner, found := os.LookupEnv(namespaceEnv); found {
		dir := os.Getenv(namespaceEnv + "_DIR")
		must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		must(t, unix.Mount("proc", dir, "proc", 0, inner))
		return kernel.FS{Proc: dir, Live: true}, true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes namespaces and mounts a procfs")
	}
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), namespaceEnv+"="+options, namespaceEnv+"_DIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) {
		t.Skip("needs CAP_SYS_ADMIN: ", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	return kernel.FS{}, false
}

// sleepAs starts a sleeping process that ends with the namespace.
func sleepAs(t *testing.T, uid uint32) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	must(t, cmd.Start())
	return cmd.Process.Pid
}

// TestTreeOfReusedPIDs holds that a process is not taken for one that had its PID before.
func TestTreeOfReusedPIDs(t *testing.T) {
	root, ok := inNamespace(t, "")
	if !ok {
		return
	}
	for _, kept := range []int{defaultMaxKept, 0} {
		cmd := exec.Command("sleep", "1000")
		must(t, cmd.Start())
		pid := cmd.Process.Pid
		target := Target{FS: root, Roots: func() []int { return []int{pid} }}
		tree, io := treeOf(t, target), openIO(target, procstats.Select(procstats.ProcessIORead), nil)
		tree.members.maxKept = kept
		var s, ios procstats.Sample
		collect(&s, tree)
		collect(&ios, io)
		before := s.Clone()
		endOf(t, cmd)
		// Start times are in ticks: two processes of one PID differ in them when one tick lies between.
		burn(2 * procstats.StartTick)
		reuse(t, root, pid)
		collect(&ios, io)
		if len(ios.Processes) == 1 && ios.Processes[0].ProcessID == before.Processes[0].ProcessID {
			t.Errorf("%d kept: the I/O of %+v is still shown", kept, ios.Processes[0].ProcessID)
		}
		collect(&s, tree)
		checkNumber(t, &s, procstats.TreeProcessesExited, 1)
		collect(&s, tree)
		if len(s.Processes) != 1 || s.Processes[0].PID != pid || s.Processes[0].Start <= before.Processes[0].Start {
			t.Fatalf("%d kept: after %+v came %+v", kept, before.Processes, s.Processes)
		}
		checkNumber(t, &s, procstats.TreeProcessesExited, 1)
		checkNumber(t, &s, procstats.TreeCPUExited, mustNumber(t, before, procstats.TreeCPULive))
		noError(t, io.Close())
	}
}

// reuse starts a process that has a PID which was another's.
func reuse(t *testing.T, root kernel.FS, pid int) {
	t.Helper()
	last := filepath.Join(root.Proc, "sys/kernel/ns_last_pid")
	for range 100 {
		if err := os.WriteFile(last, []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Skip("needs ns_last_pid (CONFIG_CHECKPOINT_RESTORE): ", err)
		}
		if sleepAs(t, 0) == pid {
			return
		}
		// One of our own threads has taken it meanwhile, or still has it.
	}
	t.Fatalf("PID %d is not given away again", pid)
}

// becomeNobody gives up root for good, in all threads.
func becomeNobody(t *testing.T) {
	t.Helper()
	must(t, errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)))
}

const nobody = 65534

func TestTreeOfHiddenProcesses(t *testing.T) { checkHidden(t, "hidepid=2", "hidepid") }

func TestTreeOfForbiddenProcesses(t *testing.T) { checkHidden(t, "hidepid=1", "CAP_SYS_PTRACE") }

// checkHidden holds that a sum without the processes that are hidden from us is not shown, and why.
func checkHidden(t *testing.T, options, reason string) {
	t.Helper()
	root, ok := inNamespace(t, options)
	if !ok {
		return
	}
	roots := []int{sleepAs(t, nobody), sleepAs(t, 0)}
	becomeNobody(t)
	tree := treeOf(t, Target{FS: root, Roots: func() []int { return roots }})
	var s procstats.Sample
	for range 2 {
		collect(&s, tree)
		checkNumber(t, &s, procstats.TreeProcesses, 2)
		checkNumber(t, &s, procstats.TreeProcessesExited, 0)
		for _, id := range []procstats.ID{procstats.TreeCPU, procstats.TreeRSS, procstats.TreeThreads, procstats.TreeCPULive, procstats.TreeCPUUnattributed} {
			if r, _ := s.Task.Get(id); r.Present() || !strings.Contains(r.Reason(), "(1 of 2)") || !strings.Contains(r.Reason(), reason) {
				t.Errorf("%s: %+v", id.String(), r)
			}
		}
		if len(s.Processes) != 2 {
			t.Fatalf("rows: %+v", s.Processes)
		}
		for i, visible := range []bool{true, false} {
			for _, r := range s.Processes[i].Readings {
				if r.Present() != visible || visible == (r.Reason() != "") {
					t.Errorf("process %d of %d: %+v", i, roots[i], r)
				}
			}
		}
	}
}

// TestIOOfOtherUsers holds what is said where the kernel lets only the owner read.
func TestIOOfOtherUsers(t *testing.T) {
	root, ok := inNamespace(t, "")
	if !ok {
		return
	}
	roots := []int{sleepAs(t, nobody), sleepAs(t, 0)}
	// /proc/PID/io of a program is its owner's only from the exec on.
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		if id, err := os.ReadFile(filepath.Join(root.Proc, strconv.Itoa(roots[0]), "comm")); err != nil || string(id) == "sleep\n" {
			break
		}
	}
	becomeNobody(t)
	target := Target{FS: root, Roots: func() []int { return roots }}
	m := newMembership(target)
	everything := procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Source == procstats.SourceTree || m.Source == procstats.SourceIO || m.Source == procstats.SourceSmaps
	})
	sources := []Source{openTree(target, everything, m), openIO(target, everything, m), openSmaps(target, everything, m)}
	var s procstats.Sample
	collect(&s, sources...)
	if len(s.Processes) != 2 {
		t.Fatalf("rows: %+v", s.Processes)
	}
	for _, r := range s.Task {
		m, _ := procstats.Lookup(r.ID())
		source := m.Source
		if r.ID() >= procstats.TreeOutside {
			continue // the task has no cgroup
		}
		want := source == procstats.SourceTree || r.ID() == procstats.SmapsSkipped
		if r.Present() != want || !want && !strings.Contains(r.Reason(), "CAP_SYS_PTRACE") {
			t.Errorf("%s: %+v", r.ID().String(), r)
		}
	}
	checkNumber(t, &s, procstats.SmapsSkipped, 1)
	for i, own := range []bool{true, false} {
		for _, r := range s.Processes[i].Readings {
			m, _ := procstats.Lookup(r.ID())
			want := own || m.Source == procstats.SourceTree
			if r.Present() != want {
				t.Errorf("row %d, %s: %+v", i, r.ID().String(), r)
			}
		}
	}
	for _, source := range sources {
		noError(t, source.Close())
	}
}
