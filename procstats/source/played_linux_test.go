// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// helperEnv makes this test binary play a process of a task instead of running tests: see TestHelperProcess.
const helperEnv = "TACHO_TEST_HELPER"

// played is a process of a task that this binary plays.
type played struct {
	*exec.Cmd
	// hold keeps the process's children waiting at descriptor 3; closing it lets them end.
	hold *os.File
	// child is the PID of the child it has started, where it has.
	child int
}

// play starts this binary in one of the roles of TestHelperProcess and returns when it is ready. It ends with the
// test, and with its input.
func play(tb testing.TB, role string) played {
	tb.Helper()
	return playFrom(tb, os.Args[0], role)
}

func playFrom(tb testing.TB, path, role string) played {
	tb.Helper()
	cmd := exec.Command(path, "-test.run=^TestHelperProcess$")
	cmd.Env = append(os.Environ(), helperEnv+"="+role)
	cmd.Stderr = os.Stderr
	input := testkit.Value(cmd.StdinPipe())(tb)
	output := testkit.Value(cmd.StdoutPipe())(tb)
	held, hold, err := os.Pipe()
	must(tb, err)
	cmd.ExtraFiles = []*os.File{held}
	must(tb, cmd.Start())
	tb.Cleanup(func() {
		_, _ = hold.Close(), input.Close()
		endOf(tb, cmd)
	})
	must(tb, held.Close())
	p := played{Cmd: cmd, hold: hold}
	if _, err := fmt.Fscanf(output, "ready %d\n", &p.child); err != nil {
		tb.Fatalf("the process is not ready: %v", err)
	}
	return p
}

// TestHelperProcess is not a test: it is what a process of a task does in the tests of this file.
func TestHelperProcess(t *testing.T) {
	role := os.Getenv(helperEnv)
	if role == "" {
		t.Skip("it is the process that other tests start")
	}
	child := 0
	switch role {
	case "busy":
		burn(300 * time.Millisecond)
	case "spawns", "forks":
		memory, err := unix.Mmap(-1, 0, spawnerMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
		must(t, err)
		memory[0] = 1
		next := func() error { return exec.Command("true").Run() }
		if role == "forks" {
			next = forkAndWait
		}
		go func() {
			for next() == nil {
			}
		}()
	case "parent":
		cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo ready; read x <&3")
		cmd.ExtraFiles = []*os.File{os.NewFile(3, "hold")}
		output := testkit.Value(cmd.StdoutPipe())(t)
		must(t, cmd.Start())
		if _, err := output.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		child = cmd.Process.Pid
	}
	fmt.Println("ready", child)
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// forkAndWait makes a copy of the process that lives for less than a millisecond.
func forkAndWait() error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 { // with no runtime
		nap := unix.Timespec{Nsec: 300_000}
		_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&nap)), 0, 0)
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

// spawnerMemory is what a process holds that starts others without end.
const spawnerMemory = 64 << 20

// init plays the role of a process whose main thread, on which init runs, ends before the others.
//
//nolint:gochecknoinits // nothing else is sure to run there
func init() {
	if os.Getenv(helperEnv) != "leaderless" {
		return
	}
	go func() {
		fmt.Println("ready", 0)
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	_, _ = os.NewFile(3, "hold").Read(make([]byte, 1))
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0) // this thread only, as pthread_exit(3) in main
}

// endMain ends the main thread of a process that plays leaderless.
func endMain(t *testing.T, p played) {
	t.Helper()
	must(t, p.hold.Close())
	for stat := (kernel.ProcStat{}); !stat.Exiting(); {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
		if err == nil {
			stat, err = kernel.ParseProcStat(data)
		}
		must(t, err)
	}
}

// burn uses CPU time.
func burn(d time.Duration) {
	begun, err := kernel.ProcessCPU(os.Getpid())
	for now := begun; err == nil && now-begun < d; {
		now, err = kernel.ProcessCPU(os.Getpid())
	}
}

// awaitEnd returns once a process has ended, be it as a zombie; it need not be a child.
func awaitEnd(tb testing.TB, pidfd int) {
	tb.Helper()
	const limit = 10_000 // milliseconds
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, limit)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n != 1 || err != nil {
			tb.Fatalf("the process does not end: %v", err)
		}
		return
	}
}

func pidfdOf(tb testing.TB, pid int) int {
	tb.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ENOSYS) {
		tb.Skip("needs pidfd_open(2), since Linux 5.3")
	}
	must(tb, err)
	tb.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}
