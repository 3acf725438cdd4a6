// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/tachograph/tacho/driver/sampling"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestWatched reads a cgroup that no executor has made, beside a task in the same one that has: both have the kernel's
// counter, both count what ends, also where it is empty, and the stream ends when the cgroup is removed.
func TestWatched(t *testing.T) {
	given := givenGroup(t)
	group := procstats.Cgroup{V2: given.GetV2(), V1: given.GetV1()}
	dirs := []string{group.V2}
	for _, dir := range group.V1 {
		dirs = append(dirs, dir)
	}
	l := newLoop(t)
	watched := sampling.Task{
		ID: "watched", Cgroup: group, Selection: procstats.DefaultSelection(), MaxRows: 10, Rows: true, RowInterval: time.Second,
	}
	s := testkit.Value(l.Open(t.Context(), watched, 20*time.Millisecond))(t)
	recv(t, s)                                                        // empty
	cmd := exec.Command("/bin/sh", "-c", "read x; /bin/true; read x") //nolint:gosec // ours
	stdin := testkit.Value(cmd.StdinPipe())(t)
	must(t, cmd.Start())
	for _, dir := range dirs {
		if dir != "" {
			must(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0))
		}
	}
	testkit.Value(io.WriteString(stdin, "\n"))(t)
	for deadline := time.Now().Add(limit); ; recv(t, s) {
		c := l.CommandsSoFar("watched", time.Time{})
		if c == nil || c.Reason != "" || countTrue(c) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the end of a process is not counted: %+v", c)
		}
	}
	must(t, stdin.Close())
	_ = cmd.Wait() // its read fails
	for _, dir := range dirs {
		if dir != "" {
			must(t, os.Remove(dir))
		}
	}
	err := error(nil)
	for deadline := time.Now().Add(limit); err == nil && time.Now().Before(deadline); {
		_, err = s.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("after the removal: %v, want io.EOF", err)
	}
	again, err := l.Open(t.Context(), watched, time.Second)
	if err == nil { // the one before was just being closed
		for err == nil {
			_, err = again.Recv()
		}
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, io.EOF) {
		t.Errorf("open what is gone: %v", err)
	}
	for _, dir := range dirs { // givenGroup removes them again
		if dir != "" {
			_ = os.MkdirAll(dir, 0o755) // several controllers have one
		}
	}
}
