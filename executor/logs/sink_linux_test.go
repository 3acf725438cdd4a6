// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

// fakeDisk takes bytes as long as it has room.
type fakeDisk struct {
	reason error

	mu     sync.Mutex // guards following
	text   bytes.Buffer
	room   int
	tries  int
	inLine bool
}

// makeRoom sets how much the disk takes from now on.
func (d *fakeDisk) makeRoom(bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = bytes
}

func (d *fakeDisk) triesSoFar() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tries
}

func (d *fakeDisk) write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tries++
	n := min(len(p), d.room)
	d.room -= n
	d.text.Write(p[:n])
	if n > 0 {
		d.inLine = p[n-1] != '\n'
	}
	if n < len(p) {
		return n, d.reason
	}
	return n, nil
}

func (d *fakeDisk) endLine() error {
	if !d.inLine {
		return nil
	}
	_, err := d.write([]byte("\n"))
	return err
}

const plenty = 1 << 30

// event is one that was reported.
type event struct {
	Kind, Message string
	Annotations   map[string]string
}

// newSink returns a sink on a disk, and what it tells.
func newSink(room int, reason error, dropOnFull bool) (*sink, *fakeDisk, *[]event) {
	disk := &fakeDisk{room: room, reason: reason}
	var reported []event
	return &sink{
		name: "stdout", to: disk, dropOnFull: dropOnFull, report: func(kind, message string, annotations map[string]string) {
			reported = append(reported, event{kind, message, annotations})
		},
	}, disk, &reported
}

func kinds(events []event) string {
	var all []string
	for _, e := range events {
		all = append(all, strings.TrimPrefix(e.Kind, "log_"))
	}
	return strings.Join(all, " ")
}

func TestSinkWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, disk, reported := newSink(8, unix.ENOSPC, false)
		written := make(chan struct{})
		go func() {
			defer close(written)
			s.put(t.Context(), []byte("one\ntwo\nthree\nfour\n"))
		}()
		<-time.After(time.Minute)
		synctest.Wait()
		if got := kinds(*reported); got != "blocked" {
			t.Errorf("reported %q while the disk is full, want blocked", got)
		}
		// 50 ms, doubled up to 5 s: some twenty tries in a minute, and not thousands.
		if tries := disk.triesSoFar(); tries < 10 || tries > 30 {
			t.Errorf("%d tries in a minute", tries)
		}
		disk.makeRoom(3)
		<-time.After(longestPause)
		disk.makeRoom(plenty)
		<-written
		testkit.Equal(t, disk.text.String(), "one\ntwo\nthree\nfour\n", "written")
		testkit.Equal(t, kinds(*reported), "blocked unblocked", "reported")
		testkit.Equal(t, s.dropped, 0, "bytes dropped")
	})
}

// A disk that is full again and again must not fill the journal.
func TestSinkTellsRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, disk, reported := newSink(0, unix.EDQUOT, false)
		for range 100 {
			disk.makeRoom(0)
			time.AfterFunc(10*time.Millisecond, func() { disk.makeRoom(4) })
			s.put(t.Context(), []byte("abc\n"))
		}
		if got := kinds(*reported); got != "blocked unblocked" {
			t.Errorf("reported %q of a hundred short waits in some seconds", got)
		}
		testkit.Equal(t, disk.text.Len(), 400, "bytes written")
		<-time.After(tellEvery)
		disk.makeRoom(0)
		time.AfterFunc(10*time.Millisecond, func() { disk.makeRoom(4) })
		s.put(t.Context(), []byte("abc\n"))
		if got := kinds(*reported); got != "blocked unblocked blocked unblocked" {
			t.Errorf("reported %q after a minute", got)
		}
	})
}

func TestSinkDropsWholeLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, disk, reported := newSink(6, unix.ENOSPC, true)
		s.put(t.Context(), []byte("one\ntwo\nthree\nfo")) // cuts "two" and ends in a line
		s.put(t.Context(), []byte("ur\nfive\n"))
		disk.makeRoom(plenty)
		s.put(t.Context(), []byte("six\n")) // too early for another try
		<-time.After(dropPause)
		s.put(t.Context(), []byte("seven\neig"))
		s.put(t.Context(), []byte("ht\n"))
		testkit.Equal(t, disk.text.String(), "one\ntw\nseven\neight\n", "written")
		want := int64(len("one\ntwo\nthree\nfour\nfive\nsix\n") - len("one\ntw"))
		if s.dropped != want {
			t.Errorf("%d bytes dropped, want %d", s.dropped, want)
		}
		s.reportDropped()
		s.reportDropped() // nothing is left to tell
		wantEvents := []event{
			{
				Kind: KindDropped, Message: "stdout lost 10 bytes, 10 in total: no space left on device",
				Annotations: map[string]string{"stream": "stdout", "bytes": "10", "bytes_total": "10"},
			},
			{
				Kind: KindDropped, Message: "stdout lost 12 bytes, 22 in total: no space left on device",
				Annotations: map[string]string{"stream": "stdout", "bytes": "12", "bytes_total": "22"},
			},
		}
		testkit.Diff(t, "reported", wantEvents, *reported)
	})
}

func TestSinkResumesInTheMiddleOfALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, disk, _ := newSink(0, unix.ENOSPC, true)
		s.put(t.Context(), []byte("lost without an end"))
		disk.makeRoom(plenty)
		<-time.After(dropPause)
		s.put(t.Context(), []byte(" still the same line"))
		s.put(t.Context(), []byte(" and its end\n"))
		s.put(t.Context(), []byte("whole\n"))
		if got := disk.text.String(); got != "whole\n" {
			t.Errorf("written %q, want the one whole line", got)
		}
	})
}

// Where waiting would not help a task must not stand still for ever, whatever the policy.
func TestSinkDropsWhereWaitingDoesNotHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, disk, reported := newSink(0, unix.EIO, false)
		s.put(t.Context(), []byte("lost\n"))
		disk.makeRoom(plenty)
		<-time.After(dropPause)
		s.put(t.Context(), []byte("kept\n"))
		testkit.Equal(t, disk.text.String(), "kept\n", "written")
		testkit.Equal(t, kinds(*reported), "dropped", "reported")
	})
}
