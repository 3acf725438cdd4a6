// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

var origin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// sample is a reading n seconds after the origin.
func sample(n int, values map[procstats.ID]float64) *procstats.Sample {
	s := &procstats.Sample{Stamp: stamp(n)}
	for id, v := range values {
		s.SetNumber(id, v)
	}
	return s
}

func stamp(n int) procstats.Stamp {
	at := time.Duration(n) * time.Second
	return procstats.Stamp{Mono: at, Wall: origin.Add(at)}
}

func newRing(path string, slots int) *Ring {
	return &Ring{openFile: openFile, path: path, clock: Clock{Boot: 1}, wanted: slots}
}

func open(t *testing.T, path string, slots int) *Ring {
	t.Helper()
	r := newRing(path, slots)
	must(t, r.open())
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

// history is a ring or a queue.
type history interface {
	Points(q Query) ([]Point, error)
}

// seconds lists when the points were taken, gaps negative.
func seconds(t *testing.T, r history, q Query) []int {
	t.Helper()
	points := testkit.Value(r.Points(q))(t)
	var all []int
	for _, p := range points {
		n := int(p.Wall.Sub(origin) / time.Second)
		if p.Gap != NoGap {
			n = -n
		}
		all = append(all, n)
	}
	return all
}

// wantSeconds compares when the points were taken, gaps negative.
func wantSeconds(t *testing.T, r history, q Query, want ...int) {
	t.Helper()
	testkit.Diff(t, fmt.Sprintf("seconds of %+v", q), want, seconds(t, r, q))
}

// cpu is the CPU time of a task, and all that is read of it.
func cpu(seconds float64) map[procstats.ID]float64 {
	return map[procstats.ID]float64{procstats.CgroupCPUUsage: seconds}
}

// manyColumns are so many measurements.
func manyColumns(n int) map[procstats.ID]float64 {
	values := make(map[procstats.ID]float64)
	for id := range procstats.ID(n) {
		values[id+1] = float64(id)
	}
	return values
}

func add(t *testing.T, r *Ring, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		must(t, r.Add(sample(n, cpu(float64(n))), 1))
	}
}

func TestRingKeepsTheNewest(t *testing.T) {
	r := open(t, filepath.Join(t.TempDir(), "h"), 5)
	wantSeconds(t, r, Query{})
	add(t, r, 1, 12)
	wantSeconds(t, r, Query{}, 8, 9, 10, 11, 12)
	wantSeconds(t, r, Query{Since: origin.Add(9 * time.Second), Until: origin.Add(10 * time.Second)}, 9, 10)
	wantSeconds(t, r, Query{Step: 2 * time.Second}, 8, 10, 12)
	p, err := r.Points(Query{Nearest: origin.Add(10400 * time.Millisecond)})
	if err != nil || len(p) != 1 || p[0].Values[procstats.CgroupCPUUsage] != 10 {
		t.Errorf("nearest %+v, %v", p, err)
	}
}

func TestRingOutlivesItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	r := newRing(path, 10)
	add(t, r, 1, 3)
	// Nothing is closed: that is how a killed process leaves it.
	again := open(t, path, 10)
	if got := again.newest.Wall; !got.Equal(origin.Add(3 * time.Second)) {
		t.Errorf("newest %v", got)
	}
	must(t, again.Mark(stamp(7), 1, GapAgent))
	must(t, again.Mark(stamp(8), 1, GapTask))
	add(t, again, 9, 10)
	wantSeconds(t, again, Query{Step: time.Nanosecond}, 1, 2, 3, -7, 9, 10)
	must(t, r.Close())
}

func TestRingTellsAbsentFromZero(t *testing.T) {
	r := open(t, filepath.Join(t.TempDir(), "h"), 4)
	must(t, r.Add(sample(1, cpu(0)), 1))
	must(t, r.Add(sample(2, map[procstats.ID]float64{procstats.CgroupMemoryCurrent: 0}), 2))
	points := testkit.Value(r.Points(Query{}))(t)
	want := []Point{
		{Stamp: stamp(1), Run: 1, Values: cpu(0)},
		{Stamp: stamp(2), Run: 2, Values: map[procstats.ID]float64{procstats.CgroupMemoryCurrent: 0}},
	}
	testkit.Diff(t, "result", want, points)
}

func TestRingWidens(t *testing.T) {
	r := open(t, filepath.Join(t.TempDir(), "h"), 4)
	add(t, r, 1, 2)
	many := manyColumns(3 * spare)
	must(t, r.Add(sample(3, many), 1))
	points := testkit.Value(r.Points(Query{}))(t)
	if len(points) != 3 || points[0].Values[procstats.CgroupCPUUsage] != 1 {
		t.Fatalf("points %+v", points)
	}
	testkit.Diff(t, "result", many, points[2].Values)
}

// TestRingIsReadInPieces has more points than are read at once, closed in the midst of them.
func TestRingIsReadInPieces(t *testing.T) {
	t.Parallel()
	const slots = 2*pieceSlots + 100
	r := open(t, filepath.Join(t.TempDir(), "h"), slots)
	add(t, r, 1, slots+pieceSlots)
	want := make([]int, 0, slots)
	for n := range slots {
		want = append(want, pieceSlots+1+n)
	}
	wantSeconds(t, r, Query{}, want...)
}

// TestQueryOfMost thins out where there is more than is wanted, and only there.
func TestQueryOfMost(t *testing.T) {
	r := open(t, filepath.Join(t.TempDir(), "h"), 100)
	add(t, r, 1, 40)
	must(t, r.Mark(stamp(60), 1, GapSilent))
	add(t, r, 61, 70)
	for _, tt := range []struct {
		name string
		q    Query
		want []int
	}{
		{"of all", Query{Most: 5}, []int{10, 24, 38, 40, -60, 65, 70}},
		{"as many as there are", Query{Most: 51}, seconds(t, r, Query{})},
		{"within a time", Query{Most: 2, Since: stamp(5).Wall, Until: stamp(10).Wall}, []int{5, 8, 10}},
		{"of few within a time", Query{Most: 6, Since: stamp(5).Wall, Until: stamp(10).Wall}, []int{5, 6, 7, 8, 9, 10}},
		{"with a larger step", Query{Most: 49, Step: 20 * time.Second}, seconds(t, r, Query{Step: 20 * time.Second})},
		{"with a smaller step", Query{Most: 5, Step: time.Second}, []int{10, 24, 38, 40, -60, 65, 70}},
		{"of none", Query{Most: 5, Since: stamp(80).Wall}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) { wantSeconds(t, r, tt.q, tt.want...) })
	}
}

// TestRingKeepsWhatItHasWhereItCannotWiden holds that the only copy is there until the wider one is whole.
func TestRingKeepsWhatItHasWhereItCannotWiden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	r := open(t, path, 4)
	add(t, r, 1, 2)
	tooMany := manyColumns(maxColumns)
	if err := r.Add(sample(3, tooMany), 1); err == nil {
		t.Error("there is no bound")
	}
	// As a full disk would have it.
	must(t, os.MkdirAll(filepath.Join(path+".new", "x"), 0o700))
	many := manyColumns(3 * spare)
	if err := r.Add(sample(3, many), 1); err == nil {
		t.Error("written where there is no room")
	}
	add(t, r, 4, 4)
	wantSeconds(t, r, Query{}, 1, 2, 4)
	wantSeconds(t, open(t, path, 4), Query{}, 1, 2, 4)
	// As a kill in the midst of it leaves it.
	must(t, errors.Join(os.RemoveAll(path+".new"), os.WriteFile(path+".new", []byte(magic+"half"), 0o600)))
	must(t, r.Add(sample(5, many), 1))
	wantSeconds(t, r, Query{}, 1, 2, 4, 5)
	wantSeconds(t, open(t, path, 4), Query{}, 1, 2, 4, 5)
	if left, err := filepath.Glob(path + "?*"); len(left) > 0 || err != nil {
		t.Errorf("left %q, %v", left, err)
	}
}

func TestRingIsNotWrittenAfterItsEnd(t *testing.T) {
	dir := t.TempDir()
	r := open(t, filepath.Join(dir, "h"), 4)
	add(t, r, 1, 1)
	must(t, r.Close())
	must(t, os.RemoveAll(dir))
	if err := r.Add(sample(2, cpu(1)), 1); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a reading: %v", err)
	}
	if err := r.Mark(stamp(3), 1, GapTask); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a gap: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its directory is there again: %v", err)
	}
}

func TestRingKeepsTimesInOrder(t *testing.T) {
	r := open(t, filepath.Join(t.TempDir(), "h"), 4)
	add(t, r, 5, 5)
	add(t, r, 3, 3)
	wantSeconds(t, r, Query{}, 5, 5)
}

func TestRingBeginsAnewWhereTheFileIsForeign(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "other": "something else entirely", "cut": magic, "wide": magic + "\x04\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00",
		"other size": magic + "\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "h")
			must(t, os.WriteFile(path, []byte(text), 0o600))
			r := open(t, path, 4)
			add(t, r, 1, 1)
			wantSeconds(t, r, Query{}, 1)
		})
	}
}

// TestRingOfAnotherSize has a history that was to be longer or shorter before a restart: its points stay.
func TestRingOfAnotherSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	for _, step := range []struct {
		slots, from, to int
		before, after   []int
	}{
		{6, 1, 10, nil, []int{5, 6, 7, 8, 9, 10}},
		{4, 11, 11, []int{7, 8, 9, 10}, []int{8, 9, 10, 11}},
		{9, 12, 13, []int{8, 9, 10, 11}, []int{8, 9, 10, 11, 12, 13}},
		{9, 14, 18, []int{8, 9, 10, 11, 12, 13}, []int{10, 11, 12, 13, 14, 15, 16, 17, 18}},
	} {
		r := newRing(path, step.slots)
		wantSeconds(t, r, Query{}, step.before...)
		add(t, r, step.from, step.to)
		wantSeconds(t, r, Query{}, step.after...)
		must(t, r.Close())
	}
}

// TestShorterRingOfRepeats has a task that sleeps: one slot stands for more readings than the shorter history has.
func TestShorterRingOfRepeats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	long := newRing(path, 20)
	must(t, long.Add(sample(1, cpu(1)), 1))
	for n := 2; n <= 15; n++ {
		repeat(t, long, n)
	}
	if err := long.Close(); err != nil || long.sequence != 1 {
		t.Fatal(long.sequence, err)
	}
	short := open(t, path, 4)
	wantSeconds(t, short, Query{}, 12, 13, 14, 15)
	add(t, short, 16, 16) // the slot before it is whole
	wantSeconds(t, short, Query{}, 12, 13, 14, 15, 16)
}

// TestReopeningFails lets the file of a ring of another size not open again: nothing is lost, nor does anything crash.
func TestReopeningFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	r := newRing(path, 6)
	add(t, r, 1, 3)
	must(t, r.Close())
	r = newRing(path, 4)
	opened := 0
	r.openFile = func(path string, flag int, perm os.FileMode) (File, error) {
		if opened++; opened == 3 { // the ring, its copy, and the ring again
			return nil, syscall.EMFILE
		}
		return openFile(path, flag, perm)
	}
	if err := r.Mark(stamp(4), 1, GapAgent); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("mark: %v", err)
	}
	testkit.NoError(t, r.Mark(stamp(4), 1, GapAgent))
	wantSeconds(t, r, Query{}, 1, 2, 3, -4)
	must(t, r.Close())
}

// TestQueriesSeeWhatAScanSees compares searches with a look at every point, over rings that are empty, half full, and
// closed at every place, with gaps, with points of the same time, and with torn ones.
func TestQueriesSeeWhatAScanSees(t *testing.T) {
	t.Parallel()
	const slots = 7
	for written := range 3 * slots {
		r := open(t, filepath.Join(t.TempDir(), "ring"), slots)
		for n := range written {
			at := 2 * (n - n%3) // three of the same time
			if n%4 == 3 {
				must(t, r.Mark(stamp(at), 1, GapSilent))
				continue
			}
			add(t, r, at, at)
		}
		if written > 4 {
			tear(t, r, r.sequence-2)
		}
		all := testkit.Value(r.Points(Query{}))(t)
		for from := -1; from < 6*slots; from++ {
			for _, to := range []int{from - 1, from, from + 1, from + 6} {
				q := Query{Since: stamp(from).Wall, Until: stamp(to).Wall}
				got := testkit.Value(r.Points(q))(t)
				if diff := cmp.Diff(within(all, q), got, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("%d points written, from %d to %d: %s", written, from, to, diff)
				}
			}
			checkNearest(t, r, all, stamp(from).Wall)
		}
	}
}

// tear makes of a point what a crash of the machine may.
func tear(t *testing.T, r *Ring, sequence uint64) {
	t.Helper()
	if _, err := r.file.WriteAt([]byte{0xff}, r.slotOffset(sequence)); err != nil {
		t.Fatal(err)
	}
}

func within(points []Point, q Query) (some []Point) {
	for _, p := range points {
		if !p.Wall.Before(q.Since) && !p.Wall.After(q.Until) {
			some = append(some, p)
		}
	}
	return some
}

func checkNearest(t *testing.T, r history, points []Point, at time.Time) {
	t.Helper()
	best, any := time.Duration(0), false
	for _, p := range points {
		if d := p.Wall.Sub(at).Abs(); p.Gap == NoGap && (!any || d < best) {
			best, any = d, true
		}
	}
	p, err := r.Points(Query{Nearest: at})
	if found := len(p) == 1; err != nil || found != any || any && (p[0].Gap != NoGap || p[0].Wall.Sub(at).Abs() != best) {
		t.Fatalf("nearest to %s is %+v (%v), want one %s away (%v)", at, p, err, best, any)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(magic + "\x04\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "h")
		must(t, os.WriteFile(path, text, 0o600))
		r := open(t, path, 4)
		add(t, r, 1, 5)
		if got := seconds(t, r, Query{}); len(got) == 0 {
			t.Error("no points")
		}
	})
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must

// TestRingIsRemoved holds that a history whose file was removed or replaced while it was open is told to be lost, once,
// and that it begins anew in a file that readers find.
func TestRingIsRemoved(t *testing.T) {
	for name, deed := range map[string]func(path string) error{
		"file":      os.Remove,
		"directory": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"moved":     func(path string) error { return os.Rename(path, path+".moved") },
		"replaced": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("other"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history", "t")
			r := newRing(path, 10)
			add := func(n int) error { return r.Add(sample(n, map[procstats.ID]float64{procstats.TreeCPU: 1}), 0) }
			testkit.Must(t, add(1))
			testkit.Must(t, deed(path))
			if err := add(2); err == nil || !strings.Contains(err.Error(), "was removed or replaced") {
				t.Errorf("adding to a file that is gone: %v", err)
			}
			testkit.Must(t, add(3))
			testkit.Must(t, add(4))
			testkit.Must(t, r.Close())
			again := newRing(path, 10)
			testkit.Must(t, again.open())
			testkit.Equal(t, again.sequence, uint64(2), "points in the new file")
			testkit.Must(t, again.Close())
		})
	}
}
