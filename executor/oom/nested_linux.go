// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"os"
	"path/filepath"
	"time"

	"github.com/tachograph/tacho/procstats/kernel"
)

// mostNested bounds the groups below a task's that one look reads.
const mostNested = 256

// nestedKills counts OOM kills in the groups below a task's if the task's own counter omits them: on version 1, and
// on version 2 under memory_localevents. It misses a group that is made and removed between two looks.
type nestedKills struct {
	own string
	// file has oom_kill, and limit names a counter that says whether the group's own limit was ever hit.
	file, limitFile, limitKey string

	seen map[string]int64 // oom_kill by folder
	// hits is how often a limit of the task's group or one above it was hit, and hitAt when it was last seen to rise
	// without a kill since; judged is the number of kills that were attributed.
	hits, judged int64
	hitAt        time.Time
	// kills is the sum over all groups, including removed ones; atLimit is how many of them were at a limit below.
	kills, atLimit int64
}

func newNestedV1(own string) *nestedKills {
	return &nestedKills{own: own, file: "memory.oom_control", limitFile: "memory.failcnt"}
}

func newNestedV2(own string) *nestedKills {
	return &nestedKills{own: own, file: "memory.events", limitFile: "memory.events.local", limitKey: "oom"}
}

// count counts again. limited is the number of new kills in groups whose limit, or one between them and the task's,
// was ever hit; attribute has to be called next.
func (n *nestedKills) count() (limited int64) {
	now := map[string]int64{}
	budget := mostNested
	n.walk(n.own, false, &budget, func(dir string, above bool) (hit bool) {
		data, err := os.ReadFile(filepath.Join(dir, n.file))
		hit = above || n.hit(dir) // after the kills
		values, ok := counters(data, "oom_kill")
		if err != nil || !ok {
			return hit
		}
		now[dir] = values[0]
		rise := values[0] - n.seen[dir]
		if rise < 0 {
			rise = values[0] // another group under the same name
		}
		n.kills += rise
		if hit {
			limited += rise
		}
		return hit
	})
	n.seen = now
	return limited
}

// attribute decides whose limit led to the kills that were just counted. hits is how often the limits of the task's
// group and of those above it were hit: they caused the kills that follow, in the groups below too.
func (n *nestedKills) attribute(limited, hits int64) {
	if hits != n.hits {
		n.hits, n.hitAt = hits, time.Now()
	}
	if time.Since(n.hitAt) >= hitSpan {
		n.atLimit += limited
	}
	if n.kills != n.judged {
		n.judged, n.hitAt = n.kills, time.Time{}
	}
}

// walk visits every group below dir until the budget is used up. above says whether a limit between it and the task's
// group was ever hit; visit returns the same for the groups below it.
func (n *nestedKills) walk(dir string, above bool, budget *int, visit func(dir string, above bool) (hit bool)) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // it is gone
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if *budget == 0 {
			return
		}
		*budget--
		child := filepath.Join(dir, entry.Name())
		n.walk(child, visit(child, above), budget, visit)
	}
}

// hit reports whether the limit of a group was ever hit.
func (n *nestedKills) hit(dir string) bool {
	path := filepath.Join(dir, n.limitFile)
	if n.limitKey == "" {
		hits, ok := kernel.ReadNumber(path)
		return ok && hits > 0
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	values, ok := counters(data, n.limitKey)
	return ok && values[0] > 0
}
