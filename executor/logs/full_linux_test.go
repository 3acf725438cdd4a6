// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/logs"
	"github.com/tachograph/tacho/internal/testkit"
)

// smallDisk mounts a file system of one megabyte.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=0777"); err != nil {
		t.Skipf("a small disk to be filled cannot be mounted, which takes root: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
	return dir
}

// ballast leaves some KiB of a small disk free.
func ballast(t *testing.T, disk string, freeKiB int) (path string) {
	t.Helper()
	path = filepath.Join(disk, "ballast")
	must(t, os.WriteFile(path, make([]byte, (1024-freeKiB)<<10), 0o600))
	return path
}

func TestFullDiskBlocks(t *testing.T) {
	disk := smallDisk(t)
	weight := ballast(t, disk, 64)
	// Two files of 32 KiB fill it: the disk is full at a write, and at making a file.
	r := start(t, logs.Options{Dir: disk, MaxFileBytes: 32 << 10, MaxFiles: 100})
	wrote := make(chan []byte, 1)
	go func() { wrote <- writeLines(t, r.stdout, 512<<10) }()
	blocked := r.expect(t, logs.KindBlocked)
	if !strings.Contains(blocked.Message, "no space left") || blocked.Annotations["stream"] != "stdout" {
		t.Errorf("event %+v", blocked)
	}
	select {
	case <-wrote:
		t.Fatal("512 KiB went into 64")
	case <-time.After(200 * time.Millisecond): // longer than several tries
	}
	must(t, os.Remove(weight))
	r.expect(t, logs.KindUnblocked)
	<-wrote
	r.end(t)
	testkit.Equal(t, r.Dropped(), 0, "bytes dropped")
	checkLines(t, text(t, disk, "stdout"), 512<<10)
}

// checkLines holds that the lines of writeLines are all there, whole and once.
func checkLines(t *testing.T, text string, atLeast int) {
	t.Helper()
	if len(text) < atLeast {
		t.Errorf("%d bytes, want at least %d", len(text), atLeast)
	}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		want := fmt.Sprintf("%d %s", i, strings.Repeat("x", i*7%400))
		if line != want {
			t.Fatalf("line %d is %q, want %q", i, line, want)
		}
	}
}

func TestFullDiskDrops(t *testing.T) {
	disk := smallDisk(t)
	weight := ballast(t, disk, 64)
	r := start(t, logs.Options{Dir: disk, MaxFileBytes: 1 << 20, MaxFiles: 100, DropOnFull: true})
	writeLines(t, r.stdout, 512<<10) // returns although there is no room
	dropped := r.expect(t, logs.KindDropped)
	if n, err := strconv.Atoi(dropped.Annotations["bytes"]); err != nil || n <= 0 {
		t.Errorf("event %+v", dropped)
	}
	must(t, os.Remove(weight))
	// The next try is a moment later; until then lines are still dropped.
	lines, deadline := 0, time.Now().Add(soon)
	for !strings.Contains(text(t, disk, "stdout"), "after the loss") {
		fmt.Fprintln(r.stdout, "after the loss")
		lines++
		if time.Now().After(deadline) {
			t.Fatal("nothing was written after there was room again")
		}
	}
	r.end(t)
	all := text(t, disk, "stdout")
	for i, line := range strings.Split(strings.TrimSuffix(all, "\n"), "\n") {
		number, rest, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(number)
		whole := err == nil && rest == strings.Repeat("x", n*7%400)
		// One line is cut by the disk's end; nothing else may be.
		if !whole && line != "after the loss" && !strings.HasPrefix(strings.Repeat("x", 400), rest) {
			t.Errorf("line %d is %q", i, line)
		}
	}
	if written := len(all); r.Dropped() == 0 || int(r.Dropped())+written < 512<<10 {
		t.Errorf("%d bytes written and %d dropped, of more than %d", written, r.Dropped(), 512<<10)
	}
	var reported int
	close(r.events)
	for e := range r.events {
		if e.Kind == logs.KindDropped {
			n, err := strconv.Atoi(e.Annotations["bytes_total"])
			if err != nil {
				t.Error(err)
			}
			reported = n
		}
	}
	if reported != int(r.Dropped()) {
		t.Errorf("events reported of %d bytes, %d were dropped", reported, r.Dropped())
	}
}

// The end of a task whose logs cannot be written is not held up for ever, and says what was lost.
func TestFullDiskAtTheEnd(t *testing.T) {
	disk := smallDisk(t)
	ballast(t, disk, 8)
	r := start(t, logs.Options{Dir: disk, MaxFileBytes: 1 << 20, MaxFiles: 100})
	const written = 48 << 10 // goes into the pipe
	if _, err := r.stdout.Write([]byte(strings.Repeat("0123456789abcde\n", written/16))); err != nil {
		t.Fatal(err)
	}
	r.expect(t, logs.KindBlocked)
	began := time.Now()
	r.taskEnds()
	r.end(t)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %s", took)
	}
	r.expect(t, logs.KindDropped)
	if kept := len(text(t, disk, "stdout")); int(r.Dropped())+kept != written {
		t.Errorf("%d bytes kept and %d dropped, of %d", kept, r.Dropped(), written)
	}
}
