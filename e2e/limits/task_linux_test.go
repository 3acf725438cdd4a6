// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package limits

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// told is what the task knows of itself, on its own clocks.
type told struct {
	Wall, CPU time.Duration
	// Gap is the longest time in which it could not run.
	Gap time.Duration
	// Others used the first CPU for so long meanwhile.
	Others time.Duration
	// Started is how many children it could start, and Error why not more.
	Started int
	Error   string
	// Bytes were written in Wall.
	Bytes int64
	Has   *has
	// Peak is that of the task's own group.
	Peak int64
}

// task does what its arguments say and tells what it knows.
func task(role, argument string) error {
	var t told
	var err error
	switch role {
	case "look":
		t, err = look()
	case "burn":
		t, err = burn(argument)
	case "start":
		t, err = startChildren(argument)
	case "sleep":
		for {
			// Without a signal to wait for, the Go runtime would take a wait for a deadlock.
			_ = unix.Pause()
		}
	case "touch":
		t, err = touch(argument)
	case "spike":
		t, err = spike(argument)
	case "huge", "swap":
		t, err = hold(role, argument)
	case "write":
		t, err = writeDirect(argument)
	default:
		err = errors.New("no such role")
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", role, argument, err)
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}

// goFile is what tasks wait for that are to begin together, or to hold what they have until it was seen.
const goFile = "go"

func awaitGo() {
	for _, err := os.Stat(goFile); err != nil; _, err = os.Stat(goFile) {
		<-time.After(time.Millisecond)
	}
}

// burn uses one CPU for some time, in one thread: "LENGTH", or "LENGTH FILE" to make a file and wait for goFile before.
func burn(argument string) (t told, err error) {
	text, ready, together := strings.Cut(argument, " ")
	length, err := time.ParseDuration(text)
	if err != nil {
		return t, err
	}
	if together {
		if err := os.WriteFile(ready, nil, 0o600); err != nil {
			return t, err
		}
		awaitGo()
	}
	runtime.LockOSThread()
	began, used, busy := time.Now(), cpuClock(), firstCPU()
	for now := began; t.Wall < length; {
		for range 1000 {
			runtime.KeepAlive(began)
		}
		before := now
		now = time.Now()
		t.Wall, t.Gap = now.Sub(began), max(t.Gap, now.Sub(before))
	}
	t.CPU = cpuClock() - used
	t.Others = max(0, firstCPU()-busy-t.CPU)
	return t, nil
}

func cpuClock() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		panic(err)
	}
	return time.Duration(at.Nano())
}

// firstCPU is how long CPU 0 has been busy, proc_stat(5).
func firstCPU() (busy time.Duration) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 9 || fields[0] != "cpu0" {
			continue
		}
		for i, field := range fields[1:9] {
			ticks, err := strconv.Atoi(field)
			if idle := i == 3 || i == 4; err == nil && !idle {
				busy += time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
			}
		}
	}
	return busy
}

// startChildren starts children that stay, as many as it can up to a number.
func startChildren(argument string) (t told, err error) {
	wanted, err := strconv.Atoi(argument)
	if err != nil {
		return t, err
	}
	var children []*exec.Cmd
	for range wanted {
		// A single thread, so that the number of children is the number of tasks that the kernel counts.
		child := exec.Command("/bin/true")
		child.Path = "/proc/self/exe"
		child.Args = []string{"self"}
		child.Env = []string{taskVariable + "=sleep", "GOMAXPROCS=1"}
		if err := child.Start(); err != nil {
			t.Error = err.Error()
			if !errors.Is(err, unix.EAGAIN) {
				return t, err
			}
			break
		}
		children = append(children, child)
	}
	t.Started = len(children)
	for _, child := range children {
		err = errors.Join(err, child.Process.Kill())
		_ = child.Wait() // killed
	}
	return t, err
}

func touch(argument string) (t told, err error) { return held(argument, 0) }

// spike has memory for 100 ms, and reads what the kernel has as its group's peak then.
func spike(argument string) (t told, err error) {
	if t, err = held(argument, 100*time.Millisecond); err != nil {
		return t, err
	}
	here, err := kernel.FindCgroup(kernel.HostFS(), os.Getpid())
	if err != nil {
		return t, err
	}
	file := filepath.Join(here.V2, "memory.peak")
	if v1 := here.V1["memory"]; v1 != "" {
		file = filepath.Join(v1, "memory.max_usage_in_bytes")
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) { // before Linux 5.19: that of this process, which is all there is of the task
		var usage unix.Rusage
		err = unix.Getrusage(unix.RUSAGE_SELF, &usage)
		t.Peak = int64(usage.Maxrss) << 10 //nolint:unconvert // 32 bits where a long is
		return t, err
	}
	if err != nil {
		return t, err
	}
	t.Peak, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return t, err
}

// held touches memory, keeps it for some time and gives it back.
func held(argument string, length time.Duration) (t told, err error) {
	size, err := strconv.Atoi(argument)
	if err != nil {
		return t, err
	}
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return t, err
	}
	for i := 0; i < size; i += os.Getpagesize() {
		memory[i] = 1
	}
	<-time.After(length)
	return told{Bytes: int64(size)}, unix.Munmap(memory)
}

// writeDirect writes "PATH BYTES" past the page cache.
func writeDirect(argument string) (t told, err error) {
	path, text, _ := strings.Cut(argument, " ")
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return t, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_DIRECT, 0o600)
	if err != nil {
		return t, err
	}
	defer file.Close()
	const block = 64 << 10
	buffer := make([]byte, 2*block)
	// Direct I/O wants memory at a multiple of the device's block.
	buffer = buffer[block-int(uintptr(unsafe.Pointer(&buffer[0])))&(block-1):][:block]
	began := time.Now()
	for t.Bytes < size {
		n, err := file.Write(buffer)
		if err != nil {
			return t, err
		}
		t.Bytes += int64(n)
	}
	t.Wall = time.Since(began)
	return t, nil
}
