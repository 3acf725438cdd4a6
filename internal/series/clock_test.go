// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// clocks are those of a machine whose wall clock is set, which is suspended, and which is booted again.
type clocks struct {
	now       procstats.Stamp
	boot      uint32
	suspended time.Duration
}

func (c *clocks) pass(d time.Duration) {
	c.now.Mono += d
	c.now.Wall = c.now.Wall.Add(d)
}

func (c *clocks) set(d time.Duration) { c.now.Wall = c.now.Wall.Add(d) }

func (c *clocks) suspend(d time.Duration) {
	c.suspended += d
	c.set(d)
}

func (c *clocks) reboot(d time.Duration) {
	c.boot++
	c.now.Mono, c.suspended = time.Second, 0
	c.set(d)
}

// TestStepsOfTheWallClock sets the clock and back within a history. Every reading stays, in order, at its distance in
// time from the newest, and within reach of a query by the clock of the newest.
func TestStepsOfTheWallClock(t *testing.T) {
	t.Parallel()
	const hour, day, year = time.Hour, 24 * time.Hour, 365 * 24 * time.Hour
	set := func(d time.Duration) func(*clocks) { return func(c *clocks) { c.set(d) } }
	for name, steps := range map[string][]func(*clocks){
		"none":                {},
		"6 h and back":        {set(6 * hour), set(-6 * hour)},
		"-6 h and back":       {set(-6 * hour), set(6 * hour)},
		"-24 h":               {set(-day)},
		"-24 h and back":      {set(-day), set(day)},
		"13 years":            {set(13 * year)},
		"13 years and back":   {set(13 * year), set(-13 * year)},
		"half a second":       {set(500 * time.Millisecond), set(-500 * time.Millisecond)},
		"agent started again": {set(6 * hour), nil, set(-6 * hour)},
		"suspended": {
			func(c *clocks) { c.suspend(8 * hour) }, set(6 * hour), func(c *clocks) { c.suspend(hour) }, set(-6 * hour),
		},
	} {
		for _, asleep := range []bool{false, true} { // readings that change, and readings that are equal
			t.Run(name, func(t *testing.T) {
				c := &clocks{now: procstats.Stamp{Mono: day, Wall: origin}, boot: 1}
				path := filepath.Join(t.TempDir(), "h")
				r := openAt(t, path, c)
				var elapsed []time.Duration // since the boot
				for i := range len(steps) + 1 {
					for n := range 35 {
						c.pass(time.Second)
						s := &procstats.Sample{Stamp: c.now}
						s.SetNumber(procstats.CgroupCPUUsage, float64(n))
						if asleep {
							s.SetNumber(procstats.CgroupCPUUsage, 1)
						}
						must(t, r.Add(s, 1))
						elapsed = append(elapsed, c.now.Mono+c.suspended)
					}
					switch {
					case i == len(steps):
					case steps[i] != nil:
						steps[i](c)
					default:
						must(t, r.Close())
						r = openAt(t, path, c)
					}
				}
				want := make([]time.Time, len(elapsed))
				for i, e := range elapsed {
					want[i] = c.now.Wall.Add(e - elapsed[len(elapsed)-1])
				}
				check := func(q Query, want []time.Time) {
					t.Helper()
					testkit.Diff(t, fmt.Sprintf("%+v", q), want, walls(t, r, q), cmp.Comparer(nearTime))
				}
				check(Query{}, want)
				check(Query{Until: c.now.Wall.Add(time.Minute)}, want)
				recent := want[len(want)-20:]
				check(Query{Since: c.now.Wall.Add(-19*time.Second - time.Millisecond)}, recent)
				check(Query{Nearest: recent[0]}, recent[:1])
				check(Query{Nearest: want[3]}, want[3:4])
				r = openAt(t, path, c)
				check(Query{}, want)
			})
		}
	}
}

func nearTime(a, b time.Time) bool { return a.Sub(b).Abs() < 15*time.Millisecond }

func openAt(t *testing.T, path string, c *clocks) *Ring {
	r := newRing(path, 400)
	r.clock = Clock{Boot: c.boot, Suspended: func() time.Duration { return c.suspended }}
	must(t, r.open())
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func walls(t *testing.T, r *Ring, q Query) (walls []time.Time) {
	t.Helper()
	points := testkit.Value(r.Points(q))(t)
	for _, p := range points {
		walls = append(walls, p.Wall)
	}
	return walls
}

// TestReadingsOfEarlierBoots keeps the wall times of a boot whose clock was right, and moves those behind the next boot
// to before it. Neither is lost.
func TestReadingsOfEarlierBoots(t *testing.T) {
	for name, test := range map[string]struct {
		off  time.Duration
		want []int // seconds since the origin
	}{
		"an hour":                 {time.Hour, []int{1, 2, 3603, 3604}},
		"clock set back at boot":  {-time.Hour, []int{-3598, -3597, -3597, -3596}},
		"clock of another decade": {-10 * 365 * 24 * time.Hour, []int{-315359998, -315359997, -315359997, -315359996}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &clocks{now: procstats.Stamp{Mono: time.Minute, Wall: origin}, boot: 1}
			path := filepath.Join(t.TempDir(), "h")
			write := func() {
				r := openAt(t, path, c)
				for n := range 2 {
					c.pass(time.Second)
					s := &procstats.Sample{Stamp: c.now}
					s.SetNumber(procstats.CgroupCPUUsage, float64(n))
					must(t, r.Add(s, 1))
				}
				must(t, r.Close())
			}
			write()
			c.reboot(test.off)
			write()
			wantSeconds(t, openAt(t, path, c), Query{}, test.want...)
			if got := seconds(t, openAt(t, path, c), Query{Since: c.now.Wall.Add(-time.Minute)}); len(got) < 2 {
				t.Errorf("of the last minute: %v", got)
			}
		})
	}
}
