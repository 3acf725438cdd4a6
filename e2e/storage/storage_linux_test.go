// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package storage

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// taskVariable makes this binary a task: its value is a role, a path and a size.
const taskVariable = "E2E_STORAGE_TASK"

const (
	mib  = 1 << 20
	size = 24 * mib // below what a guest lets become dirty before it writes back on its own
	// slack is what a file system writes beside the data.
	slack = mib
)

func TestMain(m *testing.M) {
	if text := os.Getenv(taskVariable); text != "" {
		var role, path string
		var bytes int64
		_, err := fmt.Sscan(text, &role, &path, &bytes)
		if err = errors.Join(err, task(role, path, bytes)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(rig.Main(m))
}

// truth is what the disk counted: during the run, and until nothing was left to write.
type truth struct{ read, written, synced int64 }

// run runs a task with its record, and the disk's own counters beside it.
func run(t *testing.T, cgroup, role, path string) (*record.Record, truth) {
	t.Helper()
	self := testkit.Value(os.Executable())(t)
	p := rig.NewPlace(t, rig.Self())
	unix.Sync()
	cmd := p.Run(t.Context(), "--interval", "100ms", "--cgroup", cgroup, "--", self)
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%s %s %d", taskVariable, role, path, int64(size)))
	read, written := counters(t)
	if out := rig.Capture(t, cmd); out.Code != 0 {
		t.Fatalf("code %d, said\n%s", out.Code, out.Stderr)
	}
	readAfter, writtenAfter := counters(t)
	unix.Sync()
	_, synced := counters(t)
	return p.TheRun(t).Record, truth{read: readAfter - read, written: writtenAfter - written, synced: synced - written}
}

func TestStorage(t *testing.T) {
	if _, err := os.Stat(disk); err != nil || os.Getenv("TACHO_GUEST") == "" {
		t.Skip("it writes over a disk: guests have one to spare (-disk 256 -ext4 192)")
	}
	onDisk := []string{
		taskNothing, taskBuffered, taskSynced, taskDirect, taskDeleted, taskOverwrite, taskRead, taskRaw, taskRawSynced,
	}
	t.Run("disk", func(t *testing.T) {
		dir := mount(t, disk)
		measureAll(t, onDisk, dir, disk)
		t.Run("loop", func(t *testing.T) { measureAll(t, []string{taskRaw, taskRawSynced}, dir, loop(t, dir, size)) })
	})
	t.Run("mapper", func(t *testing.T) {
		device := mapper(t)
		// What the layers of a stack count differently; the rest is the disk's.
		measureAll(t, []string{taskBuffered, taskSynced, taskDirect, taskRead}, mount(t, device), device)
	})
}

// measureAll measures tasks that write to a folder or to a device, with a cgroup and without one.
func measureAll(t *testing.T, roles []string, dir, device string) {
	for _, cgroup := range []string{"auto", "none"} {
		for _, role := range roles {
			t.Run(cgroup+"/"+role, func(t *testing.T) { measure(t, cgroup, role, dir, device) })
		}
	}
}

func measure(t *testing.T, cgroup, role, dir, raw string) {
	path := filepath.Join(dir, "file")
	switch role {
	case taskRaw, taskRawSynced:
		path = raw
	case taskOverwrite, taskRead:
		testkit.Must(t, write(path, size, os.O_CREATE, true))
	}
	r, truth := run(t, cgroup, role, path)
	if path != raw && !slices.Contains([]string{taskDeleted, taskNothing}, role) {
		testkit.NoError(t, os.Remove(path))
	}
	h := held{t, r}
	for _, id := range []procstats.ID{
		procstats.HeadlineIOHanded, procstats.HeadlineIOWrite, procstats.HeadlineIOPending, procstats.HeadlineIORead,
	} {
		t.Logf("%s: %s", id, h.show(id))
	}
	t.Logf("the disk read %d and wrote %d, and %d until all was written", truth.read, truth.written, truth.synced)
	h.reads(truth.read)
	h.writes(truth)
	h.handed(map[bool]float64{true: size}[role != taskNothing && role != taskRead])
	h.pending(truth, role)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil && cgroup == "auto" {
		h.devices(truth) // version 2 counts by device
	}
}

// devices holds the list of devices, the disk among them, to what the disk read, and layers above it to be called so.
func (h held) devices(truth truth) {
	h.t.Helper()
	var read int64
	for _, d := range h.r.Devices {
		if d.Layer != (d.Name != filepath.Base(disk)) || d.Number == "" {
			h.t.Errorf("a device that is not the disk is no layer, or the disk is one: %+v", d)
		}
		if !d.Layer {
			read += d.ReadBytes
		}
	}
	if math.Abs(float64(read-truth.read)) > slack {
		h.t.Errorf("%d bytes were read from the devices %+v, and the disk read %d", read, h.r.Devices, truth.read)
	}
	if value, _ := h.number(procstats.HeadlineIORead); math.Abs(float64(read)-value) > slack {
		h.t.Errorf("%d bytes were read from the devices, %.0f in all", read, value)
	}
}

// held is a record that is held to the truth.
type held struct {
	t *testing.T
	r *record.Record
}

// writes holds what is said to have reached storage to what the disk wrote during the run: a bound is on its side, and
// an exact value is that of a run after which nothing was left to write.
func (h held) writes(truth truth) {
	h.t.Helper()
	value, guarantee := h.number(procstats.HeadlineIOWrite)
	written := float64(truth.written)
	switch {
	case value > written+slack:
		h.t.Errorf("%.0f bytes reached storage (%s), and the disk wrote %.0f", value, guarantee, written)
	case guarantee == procstats.Exact && math.Abs(value-float64(truth.synced)) > max(slack, value/100):
		h.t.Errorf("%.0f bytes are exact, and the disk wrote %d in the end", value, truth.synced)
	case guarantee != procstats.Sampled && value < written-lag(h.t)-slack:
		h.t.Errorf("%.0f bytes reached storage (%s), and the disk wrote %.0f", value, guarantee, written)
	}
}

// lag is what the lower bound is too low by: the kernel counts what is left to write per CPU first.
func lag(t *testing.T) float64 {
	t.Helper()
	return float64(runtime.NumCPU() * 125 * os.Getpagesize())
}

func (h held) reads(truth int64) {
	h.t.Helper()
	value, guarantee := h.number(procstats.HeadlineIORead)
	if math.Abs(value-float64(truth)) > slack {
		h.t.Errorf("%.0f bytes were read (%s), and the disk read %d", value, guarantee, truth)
	}
}

func (h held) handed(want float64) {
	h.t.Helper()
	if value, guarantee := h.number(procstats.HeadlineIOHanded); math.Abs(value-want) > slack {
		h.t.Errorf("%.0f bytes were handed over (%s), want %.0f", value, guarantee, want)
	}
}

// pending holds what is said not to be written yet, if the task has a memory cgroup, to what the disk wrote after it.
func (h held) pending(truth truth, role string) {
	h.t.Helper()
	if h.r.Headline[procstats.HeadlineIOPending.String()].Value == nil {
		return
	}
	left := float64(truth.synced - truth.written)
	if strings.HasPrefix(h.t.Name(), "TestStorage/disk/loop/") && role == taskRaw {
		left = size // into the page cache of the file below the device, whose pages are written after that
	}
	if value, _ := h.number(procstats.HeadlineIOPending); math.Abs(value-left) > slack {
		h.t.Errorf("%.0f bytes are not written yet, and the disk wrote %.0f more", value, left)
	}
}

// number returns the value of a headline: 0 at least, of one that is absent because nothing was seen by what does not
// see everything.
func (h held) number(id procstats.ID) (float64, procstats.Guarantee) {
	h.t.Helper()
	value := h.r.Headline[id.String()]
	if value.Value == nil && strings.HasSuffix(value.Reason, "counted nothing and is incomplete") {
		return 0, procstats.LowerBound
	}
	if value.Value == nil {
		h.t.Errorf("%s is absent: %s", id, value.Reason)
		return 0, ""
	}
	return *value.Value, value.Guarantee
}

func (h held) show(id procstats.ID) string {
	value := h.r.Headline[id.String()]
	if value.Value == nil {
		return "absent: " + value.Reason
	}
	return fmt.Sprintf("%.0f %s %s", *value.Value, value.Guarantee, value.Source)
}
