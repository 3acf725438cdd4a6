// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"os"
	"path/filepath"
	"time"

	"github.com/tachograph/tacho/procstats/kernel"
)

// mostNested bounds the groups below a task's that are looked into at once.
const mostNested = 256

// nestedKills counts OOM kills in the groups below a task's where the task's own counter leaves them out: on version
// 1, and on version 2 under memory_localevents. A group that is made and removed between two looks is missed.
type nestedKills struct {
	own string
	// file has oom_kill, and limit names a counter that says whether the group's own limit was ever hit.
	file, limitFile, limitKey string

	seen map[string]int64 // oom_kill by folder
	// hits is how often a limit of the task's group or one above it was hit, and hitAt when that was last seen to
	// rise with no kill seen since.
	hits  int64
	hitAt time.Time
	// kills is the sum over all groups, gone ones included; atLimit those of them that were at a limit below.
	kills, atLimit int64
}

func newNestedV1(own string) *nestedKills {
	return &nestedKills{own: own, file: "memory.oom_control", limitFile: "memory.failcnt"}
}

func newNestedV2(own string) *nestedKills {
	return &nestedKills{own: own, file: "memory.events", limitFile: "memory.events.local", limitKey: "oom"}
}

// look counts again. hits is how often the limits of the task's group and of those above it were hit: kills that
// follow such a hit were its doing, also in the groups below.
func (n *nestedKills) look(hits int64) {
	if hits != n.hits {
		n.hits, n.hitAt = hits, time.Now()
	}
	elsewhere := time.Since(n.hitAt) < hitSpan
	before := n.kills
	now := map[string]int64{}
	budget := mostNested
	n.walk(n.own, false, &budget, func(dir string, limited bool) {
		data, err := os.ReadFile(filepath.Join(dir, n.file))
		if err != nil {
			return
		}
		values, ok := counters(data, "oom_kill")
		if !ok {
			return
		}
		now[dir] = values[0]
		rise := values[0] - n.seen[dir]
		if rise < 0 {
			rise = values[0] // another group under the same name
		}
		n.kills += rise
		if limited && !elsewhere {
			n.atLimit += rise
		}
	})
	n.seen = now
	if n.kills != before {
		n.hitAt = time.Time{}
	}
}

// walk visits every group below dir until the budget is used up. limited says whether its own limit, or one between it
// and the task's group, was ever hit.
func (n *nestedKills) walk(dir string, limited bool, budget *int, visit func(dir string, limited bool)) {
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
		hit := limited || n.hit(child)
		visit(child, hit)
		n.walk(child, hit, budget, visit)
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
