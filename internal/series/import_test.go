// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// earlierFile is a file as the version before writes it, with readings of some seconds after the origin. Each slot has
// room for one process.
func earlierFile(slots int, sequence uint64, times ...int) []byte {
	le := binary.LittleEndian
	head := le.AppendUint32([]byte(earlierMagic), uint32(slots))
	head = le.AppendUint16(le.AppendUint16(head, 2), 1)
	head = le.AppendUint16(le.AppendUint16(head, uint16(procstats.CgroupCPUUsage)), 0)
	const size = earlierSlotHead + 2*8 + rowSize
	file := append(head, make([]byte, slots*size)...)
	for i, at := range times {
		n := sequence + uint64(i)
		slot := file[len(head)+int(n)%slots*size:][:size]
		le.PutUint64(slot, n)
		putTime(slot[atWall:], stamp(at).Wall)
		le.PutUint64(slot[atMono:], uint64(stamp(at).Mono))
		le.PutUint32(slot[atRun:], 1)
		le.PutUint32(slot[atRepeats:], 1)
		putTime(slot[atFirst:], stamp(at).Wall)
		le.PutUint64(slot[earlierSlotHead:], math.Float64bits(float64(at)))
		le.PutUint64(slot[earlierSlotHead+8:], absent)
		s := sample(at, nil)
		withRow(s, 7, "sh", float64(at), 1)
		putRows(slot[earlierSlotHead+16:], s.Processes)
	}
	return file
}

// TestUpgradeAndRollback goes from the version before to this one, back, and here again: each finds what there was.
func TestUpgradeAndRollback(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, earlier := filepath.Join(dir, "3", "h"), filepath.Join(dir, "h")
	ring := func(slots int) *Ring {
		r := newRing(path, slots)
		r.earlier = earlier
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	first := earlierFile(5, 4, 4, 5, 6, 7, 8)
	must(t, os.WriteFile(earlier, first, 0o600))
	r := ring(6)
	wantSeconds(t, r, Query{}, 4, 5, 6, 7, 8)
	points, err := r.Points(Query{Processes: true, Nearest: stamp(6).Wall})
	if err != nil || points[0].Values[procstats.CgroupCPUUsage] != 6 || len(points[0].Processes) != 1 {
		t.Errorf("at 6: %+v, %v", points, err)
	}
	add(t, r, 9, 10)
	wantSeconds(t, r, Query{}, 5, 6, 7, 8, 9, 10)
	must(t, r.Close())
	wantSeconds(t, ring(6), Query{}, 5, 6, 7, 8, 9, 10) // nothing is imported twice
	if now, err := os.ReadFile(earlier); err != nil || !bytes.Equal(first, now) {
		t.Errorf("the file of the version before has changed, %v", err)
	}
	must(t, os.WriteFile(earlier, earlierFile(5, 7, 7, 8, 20, 21), 0o600))
	wantSeconds(t, ring(6), Query{}, 7, 8, 9, 10, 20, 21)
	// That version begins again if the clock is set back.
	must(t, os.WriteFile(earlier, earlierFile(5, 1, 30), 0o600))
	r = ring(6)
	wantSeconds(t, r, Query{}, 8, 9, 10, 20, 21, 30)
	add(t, r, 31, 31)
	if _, err := os.Stat(earlier); err != nil {
		t.Error(err)
	}
	add(t, r, 32, 60)
	wantSeconds(t, r, Query{}, 55, 56, 57, 58, 59, 60)
	if _, err := os.Stat(earlier); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of the version before is still there: %v", err)
	}
}

// TestImportThatFails leaves the file of the version before, and tries again.
func TestImportThatFails(t *testing.T) {
	dir := t.TempDir()
	r := newRing(filepath.Join(dir, "3"), 5)
	r.earlier = filepath.Join(dir, "2")
	must(t, os.WriteFile(r.earlier, earlierFile(5, 1, 1, 2), 0o600))
	must(t, os.MkdirAll(filepath.Join(r.path+".new", "x"), 0o700))
	s := sample(3, cpu(3))
	if err := r.Add(s, 1); err == nil {
		t.Error("written before what is older")
	}
	must(t, os.RemoveAll(r.path+".new"))
	must(t, r.Add(s, 1))
	wantSeconds(t, r, Query{}, 1, 2, 3)
	must(t, r.Close())
}

// TestForeignEarlierFile is ignored, and stays.
func TestForeignEarlierFile(t *testing.T) {
	dir := t.TempDir()
	r := newRing(filepath.Join(dir, "3"), 5)
	earlier := filepath.Join(dir, "2")
	r.earlier = earlier
	must(t, os.WriteFile(earlier, []byte("something else"), 0o600))
	add(t, r, 1, 30)
	wantSeconds(t, r, Query{}, 26, 27, 28, 29, 30)
	if _, err := os.Stat(earlier); err != nil {
		t.Error(err)
	}
	must(t, r.Close())
}

// TestHighestOfStep thins out readings with a peak of one second, not over a restart and not over a gap.
func TestHighestOfStep(t *testing.T) {
	r := open(t, filepath.Join(t.TempDir(), "h"), 50)
	base := int(-origin.Sub(origin.Truncate(5*time.Second))/time.Second) + 5
	put := func(second, run int, memory float64) {
		s := sample(base+second, cpu(float64(second)))
		if memory > 0 {
			s.SetNumber(procstats.HeadlineMemory, memory)
		}
		must(t, r.Add(s, run))
	}
	for _, one := range []struct {
		second, run int
		memory      float64
	}{
		{0, 1, 100}, {1, 1, 900}, {2, 1, 0}, {4, 1, 100}, {5, 1, 100}, {6, 1, 300}, {7, 2, 200}, {11, 2, 50}, {15, 2, -1}, {16, 2, 40},
	} {
		if one.memory >= 0 {
			put(one.second, one.run, one.memory)
		} else if err := r.Mark(stamp(base+one.second), one.run, GapSilent); err != nil {
			t.Fatal(err)
		}
	}
	points, err := r.Points(Query{Step: 5 * time.Second, Highest: []procstats.ID{procstats.HeadlineMemory}})
	must(t, err)
	var got [][3]float64
	for _, p := range points {
		peak, _ := p.Value(procstats.HeadlineMemory, procstats.Max)
		got = append(got, [3]float64{p.Values[procstats.CgroupCPUUsage], p.Values[procstats.HeadlineMemory], peak})
	}
	want := [][3]float64{{4, 100, 900}, {6, 300, 300}, {7, 200, 200}, {11, 50, 50}, {}, {16, 40, 40}}
	testkit.Diff(t, "result", want, got)
}
