// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// disk is a disk that can hang: while it does, calls for its files do not return.
type disk struct{ hangs atomic.Pointer[chan struct{}] }

func (d *disk) hang() (release func()) {
	c := make(chan struct{})
	d.hangs.Store(&c)
	return func() { d.hangs.Store(nil); close(c) }
}

func (d *disk) wait() {
	if c := d.hangs.Load(); c != nil {
		<-*c
	}
}

func (d *disk) open(path string, flag int, perm fs.FileMode) (File, error) {
	d.wait()
	file, err := openFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return &diskFile{file, d}, nil
}

type diskFile struct {
	File
	disk *disk
}

func (f *diskFile) ReadAt(p []byte, at int64) (int, error) {
	f.disk.wait()
	return f.File.ReadAt(p, at)
}

func (f *diskFile) WriteAt(p []byte, at int64) (int, error) {
	f.disk.wait()
	return f.File.WriteAt(p, at)
}

// lines counts log lines.
type lines struct{ warnings []string }

// Accept implements hclog.SinkAdapter.
func (l *lines) Accept(_ string, level hclog.Level, text string, args ...any) {
	if level == hclog.Warn {
		l.warnings = append(l.warnings, text)
	}
}

func queueTest(t *testing.T, test func(t *testing.T, d *disk, w *Writer, q *Queue, l *lines)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d, l := &disk{}, &lines{}
		log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard})
		log.RegisterSink(l)
		w := NewWriter(Clock{Boot: 1}, log, func() { l.warnings = append(l.warnings, "failed") })
		w.OpenFile = d.open
		q := w.Queue(filepath.Join(t.TempDir(), "h"), "", 100, log)
		test(t, d, w, q, l)
		must(t, q.Close(t.Context()))
	})
}

func reading(n int) *procstats.Sample { return sample(n, cpu(float64(n))) }

// TestQueueReadsWhatWasAdded holds that a reader finds what was added before it came.
func TestQueueReadsWhatWasAdded(t *testing.T) {
	queueTest(t, func(t *testing.T, _ *disk, w *Writer, q *Queue, l *lines) {
		q.Mark(stamp(0), 1, GapAgent) // nothing in an empty history
		want := []int{}
		for n := 1; n <= 20; n++ {
			q.Add(reading(n), 1)
			want = append(want, n)
			wantSeconds(t, q, Query{}, want...)
		}
		q.Mark(stamp(21), 1, GapTask)
		if p, err := q.Points(Query{Nearest: stamp(21).Wall}); err != nil || len(p) != 1 || !p[0].Wall.Equal(stamp(20).Wall) {
			t.Errorf("at 21: %v, %v", p, err)
		}
		if w.Dropped() != 0 || len(l.warnings) != 0 {
			t.Errorf("%d dropped, warnings %q", w.Dropped(), l.warnings)
		}
	})
}

// TestQueueOnADiskThatHangs holds that no caller waits for the disk longer than a reader does, that memory is
// bounded, and that what is dropped is counted, logged once and a gap afterwards.
func TestQueueOnADiskThatHangs(t *testing.T) {
	queueTest(t, func(t *testing.T, d *disk, w *Writer, q *Queue, l *lines) {
		other := w.Queue(filepath.Join(t.TempDir(), "other"), "", 100, hclog.NewNullLogger())
		q.Add(reading(1), 1)
		wantSeconds(t, q, Query{}, 1)
		release := d.hang()
		began := time.Now()
		for n := 2; n <= 100; n++ {
			q.Add(reading(n), 1)
			q.Mark(stamp(n), 1, GapTask)
			if n == 10 {
				other.Add(reading(1), 1)
			}
		}
		for n := 101; n <= 130; n++ {
			q.Add(reading(n), 1)
		}
		testkit.Equal(t, time.Since(began), 0, "writing took")
		if n := len(q.pending); n > 2*queueSize {
			t.Errorf("%d points are pending", n)
		}
		for _, read := range []func() error{
			func() error { _, err := q.Points(Query{}); return err },
			func() error { _, err := q.Points(Query{Nearest: origin}); return err },
			func() error { _, err := other.Points(Query{}); return err },
		} {
			began := time.Now()
			if err := read(); !errors.Is(err, ErrBlocked) {
				t.Errorf("read: %v, want ErrBlocked", err)
			}
			if took := time.Since(began); took > readTimeout {
				t.Errorf("a reader waited %v", took)
			}
		}
		testkit.Diff(t, "result", []string{"drop readings from history: the disk does not keep up"}, l.warnings)
		dropped := q.Dropped()
		if dropped == 0 || w.Dropped() != dropped || other.Dropped() != 0 {
			t.Errorf("dropped %d, of the task %d, of another %d", w.Dropped(), dropped, other.Dropped())
		}
		release()
		synctest.Wait()
		got := seconds(t, q, Query{})
		readings, gaps := 0, 0
		for _, n := range got {
			if n > 0 {
				readings++
			} else {
				gaps++
			}
		}
		if int64(readings)+dropped != 130 || gaps == 0 {
			t.Errorf("%d readings and %d gaps written, %d dropped of 130: %v", readings, gaps, dropped, got)
		}
		wantSeconds(t, other, Query{}, 1)
		testkit.NoError(t, other.Close(t.Context()))
		// Another episode is logged again, this one is not.
		release = d.hang()
		for n := range 3 * queueSize {
			q.Add(reading(200+n), 1)
		}
		<-time.After(2 * episodeEnd)
		q.Add(reading(300), 1)
		if len(l.warnings) != 2 {
			t.Errorf("warnings %q, want 2", l.warnings)
		}
		release()
		synctest.Wait()
	})
}

// TestQueueIsClosedOnADiskThatHangs holds that an agent can end then, and that nothing of it is left when the disk
// answers.
func TestQueueIsClosedOnADiskThatHangs(t *testing.T) {
	queueTest(t, func(t *testing.T, d *disk, w *Writer, _ *Queue, _ *lines) {
		q := w.Queue(filepath.Join(t.TempDir(), "x"), "", 100, hclog.NewNullLogger())
		q.Add(reading(1), 1)
		seconds(t, q, Query{})
		release := d.hang()
		q.Add(reading(2), 1)
		q.Add(reading(3), 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Close(ctx); !errors.Is(err, ErrBlocked) {
			t.Errorf("Close = %v, want ErrBlocked", err)
		}
		q.Add(reading(4), 1)
		release()
		synctest.Wait()
		if q.ring.file != nil || len(q.pending) != 0 || w.running {
			t.Errorf("file %v, %d pending, running %t", q.ring.file, len(q.pending), w.running)
		}
	})
}

// TestQueueErrorsAreLoggedOnce is about a history that cannot be written: once until it can again.
func TestQueueErrorsAreLoggedOnce(t *testing.T) {
	queueTest(t, func(t *testing.T, _ *disk, w *Writer, q *Queue, l *lines) {
		works := w.OpenFile
		broken := errors.New("no such disk")
		q.ring.openFile = func(string, int, fs.FileMode) (File, error) { return nil, broken }
		for n := range 3 {
			q.Add(reading(n), 1)
			synctest.Wait()
		}
		testkit.Diff(t, "result", []string{"write history", "failed"}, l.warnings)
		if _, err := q.Points(Query{}); !errors.Is(err, broken) {
			t.Errorf("read: %v", err)
		}
		q.ring.openFile = works
		q.Add(reading(5), 1)
		wantSeconds(t, q, Query{}, 5)
	})
}

// TestRest holds that the history of an ended task takes no descriptor, and can be read all the same.
func TestRest(t *testing.T) {
	t.Parallel()
	opened := 0
	w := NewWriter(Clock{Boot: 1}, hclog.NewNullLogger(), func() {})
	w.OpenFile = func(path string, flag int, perm fs.FileMode) (File, error) {
		file, err := openFile(path, flag, perm)
		if err != nil {
			return nil, err
		}
		opened++
		return closing{file, func() { opened-- }}, nil
	}
	q := w.Queue(filepath.Join(t.TempDir(), "history"), "", 10, hclog.NewNullLogger())
	s := &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Second, Wall: time.Unix(1, 0)}}
	s.SetNumber(procstats.CgroupCPUUsage, 1)
	q.Add(s, 1)
	for range 3 {
		testkit.Must(t, q.Rest(t.Context()))
		if opened != 0 {
			t.Errorf("%d files are open", opened)
		}
		points, err := q.Points(Query{})
		if err != nil || len(points) != 1 || opened != 0 {
			t.Errorf("%d points, %v, %d files are open", len(points), err, opened)
		}
	}
	q.Mark(procstats.Stamp{Mono: 2 * time.Second, Wall: time.Unix(2, 0)}, 1, GapAgent)
	if points, err := q.Points(Query{}); err != nil || len(points) != 2 || opened != 0 {
		t.Errorf("%d points, %v, %d files are open", len(points), err, opened)
	}
	testkit.Must(t, q.Close(t.Context()))
}

// closing tells when a file is closed.
type closing struct {
	File
	closed func()
}

func (c closing) Close() error {
	c.closed()
	return c.File.Close()
}
