// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"maps"
	"slices"
)

// Branch is a process in a tree, below as many ancestors as Depth says.
type Branch[P any] struct {
	Process *P
	Depth   int
}

// Tree orders processes so that children follow their parents, by PID on each level. ids returns the PIDs of a process
// and of its parent. Processes that are each other's parents are at the end: rows that were read at different times can
// say so.
func Tree[P any](processes []P, ids func(*P) (pid, parent int)) []Branch[P] {
	const none = 0 // no process has this PID
	present := map[int]bool{}
	for i := range processes {
		pid, _ := ids(&processes[i])
		present[pid] = true
	}
	children := map[int][]*P{}
	for i := range processes {
		pid, parent := ids(&processes[i])
		if !present[parent] || parent == pid {
			parent = none
		}
		children[parent] = append(children[parent], &processes[i])
	}
	tree := make([]Branch[P], 0, len(processes))
	var place func(parent, depth int)
	place = func(parent, depth int) {
		siblings := children[parent]
		delete(children, parent)
		slices.SortFunc(siblings, func(a, b *P) int {
			pidA, _ := ids(a)
			pidB, _ := ids(b)
			return pidA - pidB
		})
		for _, p := range siblings {
			pid, _ := ids(p)
			tree = append(tree, Branch[P]{p, depth})
			place(pid, depth+1)
		}
	}
	place(none, 0)
	for _, parent := range slices.Sorted(maps.Keys(children)) {
		place(parent, 0)
	}
	return tree
}
