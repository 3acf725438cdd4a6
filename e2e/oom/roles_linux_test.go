// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
)

// What the test binary does instead of testing: its first argument is the role, the others are the role's.
const (
	roleEat     = "play-eat"     // touch this many bytes and exit
	roleHold    = "play-hold"    // touch this many bytes, say ready and sleep
	roleParent  = "play-parent"  // have this many children, each in turn, eat this many bytes; exit with this code
	roleNested  = "play-nested"  // the same with one child, in a nested group with this limit
	roleEnter   = "play-enter"   // enter a cgroup and eat
	roleBusy    = "play-busy"    // use a CPU on this many threads for this long, and write run delays to a file
	roleRead    = "play-read"    // read this file again and again for this long
	roleWander  = "play-wander"  // leave the own cgroup, remove it, say ready and sleep
	roleUnshare = "play-unshare" // run a command below a cgroup namespace that hides everything above
)

// play plays a role and returns the exit code; ok is false where the arguments name none.
func play(args []string) (code int, ok bool) {
	if len(args) == 0 || !strings.HasPrefix(args[0], "play-") {
		return 0, false
	}
	code, err := playRole(args[0], args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, args[0]+":", err)
		return max(code, 100), true
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
	case roleParent:
		for range integer(args[0]) {
			if err := child("", args[1]); err != nil {
				return 0, err
			}
		}
		return integer(args[2]), nil
	case roleNested:
		return integer(args[2]), nested(args[0], args[1])
	case roleEnter:
		if err := os.WriteFile(filepath.Join(args[0], "cgroup.procs"), []byte("0"), 0); err != nil {
			return 0, err
		}
		return 0, eat(integer(args[1]))
	case roleBusy:
		return 0, busy(integer(args[0]), args[1], args[2])
	case roleRead:
		return 0, readAgain(args[0], args[1])
	case roleWander:
		return 0, wander()
	case roleUnshare:
		return unshare(args)
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

// eat touches memory piece by piece: one large mapping may be refused at once.
func eat(bytes int) error {
	const piece = 1 << 20
	for total := 0; total < bytes; total += piece {
		memory, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = 1
		}
	}
	return nil
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
	here, err := procstats.FindCgroup(procstats.HostFS(), os.Getpid())
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

// busy spins on threads and adds up what the scheduler made them wait, /proc/PID/task/TID/schedstat.
func busy(threads int, duration, report string) error {
	d, err := time.ParseDuration(duration)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(threads)
	var wait sync.WaitGroup
	end := time.Now().Add(d)
	for range threads {
		wait.Go(func() {
			for n := 0; n%1000 != 0 || time.Now().Before(end); n++ {
			}
		})
	}
	wait.Wait()
	if report == "" {
		return nil
	}
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil {
		return err
	}
	var run, delay int64
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		f := strings.Fields(string(text))
		run += int64(integer(f[0]))
		delay += int64(integer(f[1]))
	}
	return os.WriteFile(report, fmt.Appendf(nil, "%d %d\n", run, delay), 0o644)
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
	here, err := procstats.FindCgroup(procstats.HostFS(), os.Getpid())
	if err != nil {
		return err
	}
	dirs := map[string]bool{}
	for _, dir := range here.V1 {
		dirs[dir] = true
	}
	if here.V2 != "" {
		dirs[here.V2] = true
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
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	return unix.Pause()
}
