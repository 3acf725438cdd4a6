// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package advice

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
)

// helperVariable makes this binary a program: see helper.
const helperVariable = "E2E_ADVICE_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		if err := helper(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if inGuest() {
		const disk, dir = "/dev/vda", "/mnt" // all else is in memory there
		if errors.Join(os.MkdirAll(dir, 0o755), unix.Mount(disk, dir, "ext4", 0, "")) == nil {
			_ = os.Setenv(dirVariable, dir)
		}
	}
	os.Exit(rig.Main(m))
}

// dirVariable says where the files of tests are.
const dirVariable = "TACHO_E2E_DIR"

func inGuest() bool { return os.Getenv("TACHO_GUEST") != "" }

const mebibyte = 1 << 20

// held is what a helper holds to its end.
var held [][]byte

// helper carries out steps, one after the other, each a verb with its operands: anon:MIB and reserve:MIB:MIB touch
// memory, free gives it back, map:FILE:PASSES touches all pages of a file, shm:FILE:MIB those of one that it makes if
// need be, read:FILE:PASSES and write:FILE:MIB pass it through the page cache, burn:MS and sleep:MS take time. each:N and
// seq:N let N children carry out the rest, at once or in turn; # in an operand is then the child's number.
func helper(steps []string) error {
	for i, step := range steps {
		words := strings.Split(step, ":")
		words = append(words, "", "")
		if words[0] == "each" || words[0] == "seq" {
			return children(words[0] == "each", number(words[1]), steps[i+1:])
		}
		if err := do(words[0], words[1], number(words[2]), number(words[1])); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	return nil
}

func number(word string) int {
	n, _ := strconv.Atoi(word)
	return n
}

func do(verb, file string, n, first int) error {
	switch verb {
	case "anon":
		return mapped(-1, first*mebibyte, first*mebibyte, 1, unix.MAP_PRIVATE|unix.MAP_ANON)
	case "reserve":
		return mapped(-1, first*mebibyte, n*mebibyte, 1, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	case "free":
		for _, memory := range held {
			if err := unix.Munmap(memory); err != nil {
				return err
			}
		}
		held = nil
	case "map", "shm":
		f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if verb == "shm" {
			if err := f.Truncate(int64(n) * mebibyte); err != nil {
				return err
			}
			return mapped(int(f.Fd()), n*mebibyte, n*mebibyte, 1, unix.MAP_SHARED)
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return mapped(int(f.Fd()), int(info.Size()), int(info.Size()), n, unix.MAP_SHARED)
	case "read":
		return read(file, n)
	case "write":
		return write(file, n)
	case "burn":
		for end := usedCPU() + time.Duration(first)*time.Millisecond; usedCPU() < end; {
		}
	case "sleep":
		time.Sleep(time.Duration(first) * time.Millisecond)
	default:
		return fmt.Errorf("no step %q", verb)
	}
	return nil
}

// usedCPU is the CPU time of this process: that a busy machine gives it later is no time that it takes longer.
func usedCPU() time.Duration {
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// mapped maps a file, or memory, and touches a part of it as often as asked. Anonymous and shared memory is written to.
func mapped(fd, size, touched, passes, flags int) error {
	access := unix.PROT_READ
	file := flags == unix.MAP_SHARED && passes > 1
	if !file {
		access |= unix.PROT_WRITE
	}
	memory, err := unix.Mmap(fd, 0, size, access, flags)
	if err != nil {
		return err
	}
	held = append(held, memory)
	sum := byte(0)
	for range passes {
		for at := 0; at < touched; at += 4096 {
			if file {
				sum += memory[at]
				continue
			}
			memory[at] = 1
		}
	}
	if sum == 1 {
		fmt.Print()
	}
	return nil
}

func read(file string, passes int) error {
	buffer := make([]byte, 256<<10)
	for range passes {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		for err == nil {
			_, err = f.Read(buffer)
		}
		f.Close()
		if err != io.EOF { //nolint:errorlint // as os.File returns it
			return err
		}
	}
	return nil
}

func write(file string, mib int) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, mebibyte); mib > 0; mib-- {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return nil
}

func children(atOnce bool, n int, steps []string) error {
	var running []*exec.Cmd
	for i := range n {
		own := make([]string, len(steps))
		for k := range steps {
			own[k] = strings.ReplaceAll(steps[k], "#", strconv.Itoa(i))
		}
		child := exec.Command("/proc/self/exe", own...)
		child.Stderr = os.Stderr
		if err := child.Start(); err != nil {
			return err
		}
		if atOnce {
			running = append(running, child)
		} else if err := child.Wait(); err != nil {
			return err
		}
	}
	for _, child := range running {
		if err := child.Wait(); err != nil {
			return err
		}
	}
	return nil
}
