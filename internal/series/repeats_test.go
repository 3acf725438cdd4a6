// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// life is what a task did in so many seconds: whether its numbers moved, its rows were read, the clock jumped, it was
// started anew, or nothing was read.
type life struct {
	samples []*procstats.Sample // nil for a gap
	stamps  []procstats.Stamp
	runs    []int
}

func newLife(random *rand.Rand, readings int) (l life) {
	at, cpu, set, run := stamp(0), 1.0, stamp(0), 1
	for range readings {
		step := time.Second + time.Duration(random.IntN(2000)-1000)*time.Microsecond
		switch random.IntN(20) {
		case 0:
			cpu++
		case 1:
			step *= time.Duration(2 + random.IntN(5))
		case 2:
			run++
		case 3:
			set = at
		}
		at = procstats.Stamp{Mono: at.Mono + step, Wall: at.Wall.Add(step)}
		l.stamps, l.runs = append(l.stamps, at), append(l.runs, run)
		if random.IntN(25) == 0 {
			l.samples = append(l.samples, nil)
			continue
		}
		s := &procstats.Sample{Stamp: at}
		s.SetNumber(procstats.CgroupCPUUsage, cpu)
		if age := (at.Mono - set.Mono).Seconds(); age > 0 {
			s.SetNumber(agingColumn, age)
		}
		withRow(s, 7, "sleep", cpu, 1)
		l.samples = append(l.samples, s)
	}
	return l
}

// TestQueueRepeats adds lives with long sleeps to a queue, what is the same as before as no more than that, and reads
// all that was added: by one look, by parts, after the file was made wider, and through a ring as after a restart.
func TestQueueRepeats(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 2))
		l := newLife(random, 150)
		path := filepath.Join(t.TempDir(), "h")
		w := NewWriter(Clock{Boot: 1}, hclog.NewNullLogger(), func() { t.Error("not written") })
		q := w.Queue(path, "", 500, hclog.NewNullLogger())
		var before *procstats.Sample
		repeated := 0
		for i, s := range l.samples {
			if s == nil {
				q.Mark(l.stamps[i], l.runs[i], GapSilent)
				before = nil // its numbers are not behind a gap
				continue
			}
			age, _ := s.Task.Get(agingColumn)
			same := before != nil && l.runs[i] == l.runs[i-1] && onlyAged(before, s)
			if same && q.Again(s.Stamp, l.runs[i], age) {
				repeated++
			} else {
				kept := q.Copy(s)
				kept.Processes = s.Processes
				q.Add(kept, l.runs[i])
			}
			before = s
			if i == 75 {
				_, err := q.Points(Query{}) // nothing is written meanwhile
				must(t, errors.Join(err, q.ring.rewrite(q.ring.slots, []procstats.ID{procstats.CgroupMemoryCurrent}, q.ring.rows, nil)))
				before = nil
			}
			if random.IntN(10) == 0 || i%3 == 0 {
				if _, err := q.Points(Query{}); err != nil { // which writes what is in memory, and keeps the queue short
					t.Fatal(err)
				}
			}
		}
		check := func(h history, what string) {
			t.Helper()
			got, err := h.Points(Query{Processes: true})
			if diff := cmp.Diff(l.points(), got, nearly()); err != nil || diff != "" {
				t.Errorf("seed %d, %s: %v %s", seed, what, err, diff)
			}
		}
		check(q, "at once")
		if repeated < 50 || q.ring.sequence > 110 {
			t.Errorf("seed %d: %d of %d repeated, %d slots", seed, repeated, len(l.samples), q.ring.sequence)
		}
		checkQueries(t, q, random)
		must(t, q.Close(t.Context()))
		check(open(t, path, 500), "after a restart")
	}
}

// checkQueries compares what queries see with a look at every point.
func checkQueries(t *testing.T, h history, random *rand.Rand) {
	t.Helper()
	all := testkit.Value(h.Points(Query{}))(t)
	for range 20 {
		from := random.IntN(200)
		q := Query{Since: stamp(from).Wall, Until: stamp(from + random.IntN(20)).Wall}
		got, err := h.Points(q)
		if diff := cmp.Diff(within(all, q), got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v: %v %s", q, err, diff)
		}
		checkNearest(t, h, all, stamp(from).Wall.Add(time.Duration(random.IntN(1000))*time.Millisecond))
		if some, err := h.Points(Query{Most: 20}); err != nil || len(some) > 25+kept(all) {
			t.Fatalf("%d points for 20 (%v)", len(some), err)
		}
	}
}

// onlyAged reports whether a sample of a life has the numbers of another, but for the age of its processes.
func onlyAged(before, s *procstats.Sample) bool {
	used, _ := before.Task.Number(procstats.CgroupCPUUsage)
	uses, _ := s.Task.Number(procstats.CgroupCPUUsage)
	was, wasOld := before.Task.Number(agingColumn)
	is, isOld := s.Task.Number(agingColumn)
	return used == uses && wasOld == isOld && is >= was
}

// TestQueueRefusesToRepeat holds when a reading must be added whole.
func TestQueueRefusesToRepeat(t *testing.T) {
	usual := func(*Queue) {}
	tests := []struct {
		name   string
		before func(q *Queue)
		at     procstats.Stamp
		run    int
		want   bool
	}{
		{"the next second", usual, stamp(2), 1, true},
		{"another start", usual, stamp(2), 2, false},
		{"a clock that was set", usual, procstats.Stamp{Mono: stamp(2).Mono, Wall: stamp(3602).Wall}, 1, false},
		{"a clock that was set back", usual, procstats.Stamp{Mono: stamp(2).Mono, Wall: stamp(0).Wall}, 1, false},
		{"behind a gap", func(q *Queue) { q.Mark(stamp(1), 1, GapSilent) }, stamp(2), 1, false},
		{"behind one that was dropped", func(q *Queue) {
			q.busy <- struct{}{} // as a write does that hangs
			defer func() { <-q.busy }()
			for range queueSize + 2 {
				q.Add(q.Copy(sample(1, nil)), 1)
			}
		}, stamp(2), 1, false},
		{"behind a reading that failed", func(q *Queue) {
			q.ring.closed = true
			q.Add(q.Copy(sample(1, cpu(2))), 1)
			_, _ = q.Points(Query{})
		}, stamp(2), 1, false},
		{"behind the end", func(q *Queue) { _ = q.Close(t.Context()) }, stamp(2), 1, true}, // which is ignored
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := NewWriter(Clock{Boot: 1}, hclog.NewNullLogger(), func() {}).Queue(filepath.Join(t.TempDir(), "h"), "", 50, hclog.NewNullLogger())
			t.Cleanup(func() { _ = q.Close(context.Background()) }) // before its directory is removed: it would be made again
			q.Add(q.Copy(sample(1, cpu(1))), 1)
			if _, err := q.Points(Query{}); err != nil {
				t.Fatal(err)
			}
			test.before(q)
			testkit.Equal(t, q.Again(test.at, test.run, procstats.Reading{}), test.want, "again")
		})
	}
}

// kept counts the points that are kept whatever the step: gaps, and the last one before a gap or another start.
func kept(points []Point) (n int) {
	for i, p := range points {
		if p.Gap != NoGap || i > 0 && p.Run != points[i-1].Run {
			n += 2
		}
	}
	return n
}

// points is what a history has of a life.
func (l life) points() (points []Point) {
	for i, s := range l.samples {
		p := Point{Stamp: l.stamps[i], Run: l.runs[i]}
		if s == nil {
			if len(points) == 0 || points[len(points)-1].Gap != NoGap {
				continue
			}
			p.Gap = GapSilent
			points = append(points, p)
			continue
		}
		p.Values, p.Processes = make(map[procstats.ID]float64), s.Processes
		for _, reading := range s.Task {
			p.Values[reading.ID()], _ = reading.Number()
		}
		points = append(points, p)
	}
	return points
}

// nearly compares times that were computed from equal steps.
func nearly() cmp.Options {
	return cmp.Options{
		cmp.Comparer(func(a, b procstats.Stamp) bool {
			return a.Wall.Sub(b.Wall).Abs() < 50*time.Millisecond && (a.Mono-b.Mono).Abs() < 50*time.Millisecond
		}),
		cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 0.05 }),
		cmp.AllowUnexported(procstats.Reading{}), cmpopts.EquateEmpty(),
	}
}

// repeat adds a reading with the numbers of the newest.
func repeat(t *testing.T, r *Ring, n int) {
	t.Helper()
	must(t, r.Again(again{n: 1, before: r.newest, last: stamp(n)}, 1))
}

// TestRepeatsAreFew holds what a task that sleeps costs: a slot for as long as nothing changes.
func TestRepeatsAreFew(t *testing.T) {
	t.Parallel()
	r := open(t, filepath.Join(t.TempDir(), "h"), 900)
	for n := range 3600 {
		if n%10 == 0 {
			must(t, r.Add(sample(n, cpu(float64(n))), 1))
		} else {
			repeat(t, r, n)
		}
	}
	points := seconds(t, r, Query{})
	if r.sequence != 360 || len(points) < 900 || len(points) > 910 || points[len(points)-1] != 3599 || !slices.IsSorted(points) {
		t.Errorf("%d slots, %d points up to %d", r.sequence, len(points), points[len(points)-1])
	}
	info, err := os.Stat(r.path)
	if err != nil || info.Size() > 90_000 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}

// TestRepeatsAfterKill loses no more than the last seconds.
func TestRepeatsAfterKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	r := open(t, path, 100)
	must(t, r.Add(sample(0, cpu(1)), 1))
	for n := 1; n < 60; n++ {
		repeat(t, r, n)
	}
	if all := seconds(t, open(t, path, 100), Query{}); len(all) < 50 || all[len(all)-1] < 49 {
		t.Errorf("the file has %v", all)
	}
}
