// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

// helperName is the comm of this test's executable: at most 15 bytes.
var helperName = func() string {
	name := filepath.Base(os.Args[0])
	return name[:min(15, len(name))]
}()

// ready is what a helper prints when it has its memory.
const ready = "ready"

// TestMain also runs what the tests watch, in processes of their own.
func TestMain(m *testing.M) {
	switch helper := os.Getenv("EXITS_HELPER"); helper {
	case "":
		os.Exit(m.Run())
	case "leader":
		outliveLeader()
	case "spawn":
		spawn()
	case "exit":
		code, err := strconv.Atoi(os.Args[1])
		if err != nil {
			os.Exit(1)
		}
		os.Exit(code)
	case "touch":
		if err := touch(os.Args[1]); err != nil {
			os.Exit(1)
		}
	case "map": // a file, and read it
		if err := readMapped(os.Args[1]); err != nil {
			os.Exit(1)
		}
	case "wait": // until its standard input ends, with more memory than it can have inherited
		memory := make([]byte, 64<<20)
		for i := 0; i < len(memory); i += 4096 {
			memory[i] = 1
		}
		_, _ = os.Stdout.WriteString(ready)
		_, _ = os.Stdin.Read(memory)
	case "socket": // of a family, as a descriptor
		family, errFamily := strconv.Atoi(os.Args[1])
		to, errTo := strconv.Atoi(os.Args[2])
		fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
		if errors.Join(errFamily, errTo, err, unix.Dup3(fd, to, 0), unix.Close(fd)) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	case "take": // a descriptor of the parent, and try to send something by it
		number, errNumber := strconv.Atoi(os.Args[1])
		pidfd, errOpen := unix.PidfdOpen(os.Getppid(), 0)
		fd, err := unix.PidfdGetfd(pidfd, number, 0)
		_ = unix.Sendto(fd, []byte{0}, 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}})
		if errors.Join(errNumber, errOpen, err, unix.Close(fd)) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	case "kill":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	case "fork":
		if err := exec.Command("/bin/true").Run(); err != nil {
			os.Exit(1)
		}
	default:
		os.Exit(1)
	}
}

// spawn runs the programs that its arguments name, each with a helper and an argument of its own: all at once, or in
// turn.
func spawn() {
	var started []*exec.Cmd
	for _, program := range os.Args[1:] {
		path, rest, _ := strings.Cut(program, " ")
		helper, argument, _ := strings.Cut(rest, " ")
		cmd := exec.Command(path, argument)
		cmd.Env = append(os.Environ(), "EXITS_HELPER="+helper)
		if err := cmd.Start(); err != nil {
			os.Exit(1)
		}
		if os.Getenv("EXITS_IN_TURN") != "" {
			_ = cmd.Wait()
			continue
		}
		started = append(started, cmd)
	}
	for _, cmd := range started {
		_ = cmd.Wait() // some fail on purpose
	}
}

// touch fills so many MiB of memory, writes what it then finds in its own page tables, and lives for 20 ms more.
func touch(mib string) error {
	n, err := strconv.Atoi(mib)
	if err != nil {
		return err
	}
	memory, err := unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	tables, err := os.ReadFile("/proc/self/smaps_rollup")
	if err == nil {
		err = os.WriteFile(filepath.Join(os.Getenv("EXITS_TRUTH"), mib), tables, 0o600)
	}
	<-time.After(20 * time.Millisecond)
	return err
}

// readMapped reads a byte of each page of a file that it maps.
func readMapped(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	file, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	for i := 0; i < len(file); i += 4096 {
		if file[i] != 0 {
			return errors.ErrUnsupported
		}
	}
	return nil
}

// outliveLeader ends the first thread with 0, and the process with 3 when another has used CPU time after that.
func outliveLeader() {
	go func() {
		for until := time.Now().Add(50 * time.Millisecond); time.Now().Before(until); {
		}
		os.Exit(3)
	}()
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
	select {}
}

// The helpers of package testkit, by short names.
var (
	must    = testkit.Must
	noError = testkit.NoError
	closing = testkit.Closing
)
