// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package reader

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// sampleAt is a sample with a process, and a count that tells it from others.
func sampleAt(n int) *procstats.Sample {
	s := &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Duration(n) * time.Second, Wall: time.Unix(int64(n), 0)}}
	s.SetNumber(procstats.SkbReceived, float64(n))
	s.AddProcess(procstats.ProcessID{PID: n, Start: 1})
	return s
}

func countedAt(n int, ended, lost int64) *record.Handed {
	return &record.Handed{At: time.Unix(int64(n), 0).UTC(), Commands: &record.Commands{
		Rows: []procstats.Command{{Name: "cc", Processes: ended}}, LostRecords: lost,
	}}
}

func openHandover(t *testing.T, folder string) *HandoverWriter {
	t.Helper()
	w := testkit.Value(OpenHandover(folder))(t)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func readHandover(t *testing.T, folder string) *Handover {
	t.Helper()
	h := testkit.Value(ReadHandover(folder))(t)
	return h
}

// mono is when a sample was taken; 0 of none.
func mono(s *procstats.Sample) int {
	if s == nil {
		return 0
	}
	return int(s.Mono / time.Second)
}

func (h *Handover) hold(t *testing.T, last, before, rows int) {
	t.Helper()
	if mono(h.Last) != last || mono(h.Before) != before || mono(h.Rows) != rows {
		t.Errorf("last %d, before %d, rows %d; want %d, %d, %d", mono(h.Last), mono(h.Before), mono(h.Rows), last, before, rows)
	}
	if h.Last != nil && len(h.Last.Processes) > 0 || h.Rows != nil && len(h.Rows.Processes) != 1 {
		t.Error("only the sample with rows is to have some")
	}
}

// TestHandover holds that the newest samples and commands are read as they were written, also after another writer
// has continued.
func TestHandover(t *testing.T) {
	folder := t.TempDir()
	if h, err := ReadHandover(folder); *h != (Handover{}) || err != nil {
		t.Errorf("without a handover: %+v, %v", h, err)
	}
	var m Memory
	w := openHandover(t, folder)
	readHandover(t, folder).hold(t, 0, 0, 0)
	rows := sampleAt(1)
	for n := 1; n <= 5; n++ {
		if n == 4 {
			rows = sampleAt(n)
		}
		must(t, errors.Join(w.Write(sampleAt(n), rows, &m), w.WriteCommands(countedAt(n, int64(n), 0))))
		h := readHandover(t, folder)
		h.hold(t, n, n-1, mono(rows))
		if h.Counted == nil || h.Counted.Commands.Processes() != int64(n) || !h.Counted.At.Equal(time.Unix(int64(n), 0)) {
			t.Errorf("counted %+v", h.Counted)
		}
	}
	next := openHandover(t, folder)
	for n := 6; n <= 8; n++ {
		must(t, next.Write(sampleAt(n), nil, &m))
	}
	readHandover(t, folder).hold(t, 8, 7, 4)
}

// TestHandoverTorn holds that a slot that is not complete is reported and counts for nothing, and that the others are
// read.
func TestHandoverTorn(t *testing.T) {
	folder := t.TempDir()
	var m Memory
	w := openHandover(t, folder)
	for n := 1; n <= 2; n++ { // the second in the first slot
		must(t, w.Write(sampleAt(n), sampleAt(n), &m))
	}
	file, err := os.OpenFile(filepath.Join(folder, handoverFile), os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	if _, err := file.WriteAt([]byte{0xff}, headerSize+3); err != nil {
		t.Fatal(err)
	}
	h, err := ReadHandover(folder)
	if err == nil {
		t.Error("a torn sample is no error")
	}
	h.hold(t, 1, 0, 2)
	must(t, file.Truncate(rowSlot*slotSize+headerSize+1))
	if h, err = ReadHandover(folder); err == nil || h.Rows != nil {
		t.Errorf("rows that were cut off: %+v, %v", h.Rows, err)
	}
}

// TestCommandsAgain holds that commands are written again after that failed, though nothing has ended since, and if
// nothing but the lost records has changed.
func TestCommandsAgain(t *testing.T) {
	folder := t.TempDir()
	w := openHandover(t, folder)
	good := w.file
	if w.file, _ = os.Open(good.Name()); w.WriteCommands(countedAt(1, 1, 0)) == nil {
		t.Fatal("it was handed over where nothing can be written")
	}
	_ = w.file.Close()
	w.file = good
	for i, want := range []*record.Handed{countedAt(1, 1, 0), countedAt(2, 1, 7)} {
		must(t, w.WriteCommands(want))
		if got := readHandover(t, folder).Counted; got == nil || !got.At.Equal(want.At) || got.Commands.LostRecords != want.Commands.LostRecords {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
