// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// What the test binary does instead of testing: its first argument is the role, the others are the role's.
const (
	roleEat  = "play-eat"  // touch this many bytes and exit
	roleHold = "play-hold" // touch this many bytes, say ready and sleep
	// Touch this many bytes, wait for so long, and touch as many as the second number; play-lazy gives the first up lazily.
	roleGrow = "play-grow"
	roleLazy = "play-lazy"
	// Have this many children, each in turn, eat this many bytes; exit with this code. With one argument more, say ready
	// and wait for a line before the first and after the last, and pause between them.
	roleParent  = "play-parent"
	roleSleep   = "play-sleep"   // sleep for this long
	roleNested  = "play-nested"  // the same with one child, in a nested group with this limit
	roleEnter   = "play-enter"   // enter a cgroup and eat
	roleBusy    = "play-busy"    // use the CPUs with this many processes for this long
	roleAlone   = "play-alone"   // say ready and use CPU 0 with one process for this long
	roleRead    = "play-read"    // read this file again and again for this long
	roleWander  = "play-wander"  // leave the own cgroup, remove it, say ready and sleep
	roleUnshare = "play-unshare" // run a command below a cgroup namespace that hides everything above
	roleFirst   = "play-first"   // run a command as the first process of a PID namespace
)

// roleFailed is the exit code of a role that could not be played.
const roleFailed = 111

// play plays a role and returns the exit code; ok is false where the arguments name none.
func play(args []string) (code int, ok bool) {
	if len(args) == 0 || !strings.HasPrefix(args[0], "play-") {
		return 0, false
	}
	code, err := playRole(args[0], args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, args[0]+":", err)
		return roleFailed, true
	}
	return code, true
}

func playRole(role string, args []string) (code int, err error) {
	switch role {
	case roleEat:
		return 0, eat(integer(args[0]))
	case roleHold:
		if err := eat(integer(args[0])); err != nil {
			return 0, err
		}
		fmt.Println("ready")
		return 0, unix.Pause()
	case roleGrow, roleLazy:
		return 0, grow(role == roleLazy, args[0], args[1], args[2])
	case roleParent:
		return parent(integer(args[0]), args[1], args[2], len(args) > 3)
	case roleNested:
		return integer(args[2]), nested(args[0], args[1])
	case roleEnter:
		if err := os.WriteFile(filepath.Join(args[0], "cgroup.procs"), []byte("0"), 0); err != nil {
			return 0, err
		}
		return 0, eat(integer(args[1]))
	case roleSleep:
		d, err := time.ParseDuration(args[0])
		<-time.After(d)
		return 0, err
	case roleBusy:
		return 0, busy(args[0], args[1])
	case roleAlone:
		return 0, alone(args[0])
	case roleRead:
		return 0, readAgain(args[0], args[1])
	case roleWander:
		return 0, wander()
	case roleUnshare:
		return unshare(args)
	case roleFirst:
		return 0, first(args)
	}
	return 0, errors.New("unknown role")
}

func integer(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func grow(lazily bool, first, second, pause string) error {
	wait, err := time.ParseDuration(pause)
	if err != nil {
		return err
	}
	give := func([]byte) error { return nil }
	if lazily {
		give = func(memory []byte) error { return unix.Madvise(memory, unix.MADV_FREE) }
	}
	if err := touch(integer(first), give); err != nil {
		return err
	}
	<-time.After(wait)
	return eat(integer(second))
}

func eat(bytes int) error { return touch(bytes, func([]byte) error { return nil }) }

// touch touches memory piece by piece: one large mapping may be refused at once. It offers itself to the OOM killer, so
// that nobody else is chosen while the memory of one that was killed before is still given back.
func touch(bytes int, then func(piece []byte) error) error {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0); err != nil {
		return err
	}
	const piece = 1 << 20
	for total := 0; total < bytes; total += piece {
		memory, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = 1
		}
		if err := then(memory); err != nil {
			return err
		}
	}
	return nil
}

// pause is how much time lies between two kills: the kernel says only ten times in five seconds in which group.
const pause = 600 * time.Millisecond

func parent(children int, bytes, code string, waits bool) (int, error) {
	lines := bufio.NewReader(os.Stdin)
	if waits {
		fmt.Println("ready")
		if _, err := lines.ReadString('\n'); err != nil {
			return 0, err
		}
	}
	for range children {
		if err := errors.Join(child("", bytes), released()); err != nil {
			return 0, err
		}
		if waits {
			<-time.After(pause)
		}
	}
	if waits {
		if _, err := lines.ReadString('\n'); err != nil {
			return 0, err
		}
	}
	return integer(code), nil
}

// released waits until a killed child's memory is given back: a reader of the child holds on to it, whoever that is. The
// kernel would choose again while the next one starts, which is no larger than its parent then.
func released() error {
	here, err := kernel.FindCgroup(kernel.HostFS(), os.Getpid())
	if err != nil {
		return err
	}
	file := filepath.Join(here.V2, "memory.current")
	if own := here.V1["memory"]; own != "" {
		file = filepath.Join(own, "memory.usage_in_bytes")
	}
	for end := time.Now().Add(deadline); time.Now().Before(end); <-time.After(time.Millisecond) {
		if held, ok := kernel.ReadNumber(file); ok && held < limitBytes/2 {
			return nil
		}
	}
	return errors.New("the child's memory was not given back")
}

// child has a child eat in a cgroup, or in ours, and expects it to be killed.
func child(dir, bytes string) error {
	cmd := exec.Command("/proc/self/exe", roleEat, bytes)
	if dir != "" {
		cmd = exec.Command("/proc/self/exe", roleEnter, dir, bytes)
	}
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && strings.Contains(exit.String(), "killed") {
		return nil
	}
	return fmt.Errorf("the child was not killed: %w", err)
}

// nested makes a group with a limit below the task's own and has a child eat in it.
func nested(limit, bytes string) error {
	here, err := kernel.FindCgroup(kernel.HostFS(), os.Getpid())
	if err != nil {
		return err
	}
	own, file := here.V1["memory"], "memory.limit_in_bytes"
	if own == "" {
		own, file = here.V2, "memory.max"
		// A group with processes of its own can give its children no controllers.
		leaf := filepath.Join(own, "leaf")
		if err := errors.Join(
			os.Mkdir(leaf, 0o755),
			os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte("0"), 0),
			os.WriteFile(filepath.Join(own, "cgroup.subtree_control"), []byte("+memory"), 0),
		); err != nil {
			return err
		}
	}
	dir := filepath.Join(own, "nested")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, file), []byte(limit), 0)); err != nil {
		return err
	}
	return child(dir, bytes)
}

// busy has processes spin, and waits for them.
func busy(processes, duration string) error {
	d, err := time.ParseDuration(duration)
	if err != nil {
		return err
	}
	var pids []int
	for range integer(processes) {
		pid, err := spin(d)
		if err != nil {
			return err
		}
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
			return err
		}
	}
	return nil
}

// alone has a process spin on CPU 0, and waits for it.
func alone(duration string) error {
	d, err := time.ParseDuration(duration)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	var first unix.CPUSet
	first.Set(0)
	if err := unix.SchedSetaffinity(0, &first); err != nil {
		return err
	}
	pid, err := spin(d)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = unix.Wait4(pid, nil, 0, nil)
	return err
}

// spin forks a process that does nothing but use a CPU. It has a single thread: the Go runtime's own would wait for
// the CPU too, and nothing of the runtime may be used in it.
func spin(d time.Duration) (pid int, err error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, err
	}
	end := now.Nano() + int64(d)
	child, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if child != 0 {
		return int(child), nil
	}
	for {
		for range 1 << 16 {
		}
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&now)), 0)
		if now.Nano() >= end {
			_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
}

// readAgain reads a file from its beginning to its end, over and over.
func readAgain(file, duration string) error {
	d, err := time.ParseDuration(duration)
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	buffer := make([]byte, 256<<10)
	fmt.Println("ready")
	for end := time.Now().Add(d); time.Now().Before(end); {
		if _, err := f.Read(buffer); errors.Is(err, io.EOF) {
			_, err = f.Seek(0, io.SeekStart)
			if err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// wander moves this process one group up in every hierarchy and removes the group it was in.
func wander() error {
	here, err := kernel.FindCgroup(kernel.HostFS(), os.Getpid())
	if err != nil {
		return err
	}
	dirs := map[string]bool{}
	for _, dir := range append(slices.Collect(maps.Values(here.V1)), here.V2) {
		if strings.HasPrefix(filepath.Base(dir), "tacho-") {
			dirs[dir] = true
		}
	}
	root := "/sys/fs/cgroup"
	for dir := range dirs {
		// Only the root of a hierarchy takes processes whatever controllers it hands on.
		to := filepath.Dir(dir)
		if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
			to = root
		}
		if err := os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte("0"), 0); err != nil {
			return err
		}
	}
	for dir := range dirs {
		if err := removeSoon(dir); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	return unix.Pause()
}

// removeSoon removes a group as soon as whoever was in it is quite gone.
func removeSoon(dir string) (err error) {
	for range 200 {
		if err = os.Remove(dir); !errors.Is(err, unix.EBUSY) {
			return err
		}
		<-time.After(5 * time.Millisecond)
	}
	return err
}
