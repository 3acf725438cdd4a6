// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// selectionWords bounds the IDs that can be selected: a table beyond it needs more words, and a test says so.
const selectionWords = 8

// Selection is a set of measurements, comparable with ==. The zero Selection is empty.
type Selection struct {
	bits [selectionWords]uint64
}

// Select returns the selection of the given measurements. Numbers not in the table are ignored; a headline
// stands for the measurements it can be taken from on this operating system.
func Select(ids ...ID) Selection {
	var s Selection
	for _, id := range ids {
		if m := rowOf(id); m != nil {
			s.add(m)
		}
	}
	return s
}

// SelectWhere returns the selection of all measurements, headlines aside, for which keep is true.
func SelectWhere(keep func(Measurement) bool) Selection {
	var s Selection
	for m := range allRows() {
		if m.Scope != HeadlineScope && keep(*m) {
			s.add(m)
		}
	}
	return s
}

// SourceSelection selects what a source reads.
func SourceSelection(source SourceID) Selection {
	return SelectWhere(func(m Measurement) bool { return m.Source == source })
}

// SetSelection selects the measurements of a set.
func SetSelection(set Set) Selection {
	return SelectWhere(func(m Measurement) bool { return m.Set == set })
}

// AllSelection selects everything this operating system could have: all but the portable source where there
// are readers of our own, and only that source and the reaped children's usage elsewhere.
func AllSelection() Selection {
	return SelectWhere(func(m Measurement) bool { return belongs(m.Source, runtime.GOOS) })
}

// DefaultSelection selects what costs little: every total, and of each process its CPU time, how long it waited for a
// CPU, resident memory, state, threads and command line. Left out are what needs a walk (smaps, disk), a file more per
// process (process_io), and details that few read (address space, faults, context switches, start and elapsed time,
// the command that every row carries anyway).
func DefaultSelection() Selection {
	return SelectWhere(func(m Measurement) bool { return belongs(m.Source, runtime.GOOS) && cheap(m) })
}

func cheap(m Measurement) bool {
	switch m.Source {
	case SourceSmaps, SourceDisk:
		return false
	}
	if m.Scope != ProcessScope {
		return m.ID != TreeVsize
	}
	switch m.ID {
	case ProcessCPU, ProcessRSS, ProcessState, ProcessThreads, ProcessCmdline, ProcessRunDelay,
		PortableProcessCPU, PortableProcessRSS:
		return true
	}
	return false
}

// belongs reports whether a source is one that the operating system can have at all.
func belongs(source SourceID, goos string) bool {
	switch source {
	case SourceExecutor, SourceDisk:
		return true
	case SourceRusage:
		return goos != "windows" // which has the totals of a Job Object
	case SourcePortable:
		return goos != "linux"
	case SourceExits:
		return false // a record has it without being asked
	}
	return goos == "linux"
}

func (s *Selection) add(m *Measurement) {
	if m.Scope == HeadlineScope {
		for _, id := range headlineNeeds(m.ID) {
			if belongs(rowOf(id).Source, runtime.GOOS) {
				s.set(id)
			}
		}
		return
	}
	s.set(m.ID)
	if m.ID == DiskUsage || m.ID == DiskFiles { // which are not to be read without
		s.set(DiskWalk)
		s.set(DiskWalkStart)
	}
}

func (s *Selection) set(id ID) { s.bits[id/64] |= 1 << (id % 64) }

// Has reports whether a measurement is selected.
func (s Selection) Has(id ID) bool {
	return int(id/64) < len(s.bits) && s.bits[id/64]&(1<<(id%64)) != 0
}

// HasSource reports whether any measurement of a source is selected.
func (s Selection) HasSource(source SourceID) bool { return s.Minus(bySource()[source]) != s }

// bySource has the measurements of each source: samples ask for some, and the rows of the table are far apart.
//
//nolint:gochecknoglobals // of the table, never written to
var bySource = sync.OnceValue(func() *[sourceCount]Selection {
	var sources [sourceCount]Selection
	for m := range allRows() {
		sources[m.Source].set(m.ID)
	}
	return &sources
})

// Empty reports whether nothing is selected.
func (s Selection) Empty() bool { return s == Selection{} }

// Len returns how many measurements are selected.
func (s Selection) Len() int {
	n := 0
	for _, word := range s.bits {
		n += bits.OnesCount64(word)
	}
	return n
}

// Union returns what is in s or in other.
func (s Selection) Union(other Selection) Selection {
	for i := range s.bits {
		s.bits[i] |= other.bits[i]
	}
	return s
}

// Minus returns what is in s and not in other.
func (s Selection) Minus(other Selection) Selection {
	for i := range s.bits {
		s.bits[i] &^= other.bits[i]
	}
	return s
}

// IDs returns the selected measurements, ascending.
func (s Selection) IDs() []ID {
	ids := make([]ID, 0, s.Len())
	for m := range allRows() {
		if s.Has(m.ID) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// Names returns the names of the selected measurements, in the order of the table.
func (s Selection) Names() []string {
	var names []string
	for m := range allRows() {
		if s.Has(m.ID) {
			names = append(names, m.Name)
		}
	}
	return names
}

// ErrUnknownMeasurement is wrapped by every error about a name that the table does not have.
var ErrUnknownMeasurement = errors.New("unknown measurement")

// UnknownError says which word names no measurement, and which names are near. It wraps ErrUnknownMeasurement.
type UnknownError struct {
	Word string
	// Near are names that may have been meant, the likeliest first.
	Near []string
}

// Error implements error.
func (e *UnknownError) Error() string {
	if len(e.Near) == 0 {
		groups := strings.Join(groupNames(1), ", ")
		return fmt.Sprintf("%v %q (there are the groups %s)", ErrUnknownMeasurement, e.Word, groups)
	}
	return fmt.Sprintf("%v %q (did you mean %s?)", ErrUnknownMeasurement, e.Word, strings.Join(e.Near, ", "))
}

// Unwrap returns ErrUnknownMeasurement.
func (e *UnknownError) Unwrap() error { return ErrUnknownMeasurement }

// ParseSelection reads a comma list of names as the table has them, of groups (whole words from the start of
// names: cgroup_memory, psi, process), of headlines (which stand for what they can be taken from), all and
// default. Words are taken from left to right; one with a leading minus removes what it names, from the
// default where it comes first. A word that names nothing is an *UnknownError.
func ParseSelection(expr string) (Selection, error) {
	var s Selection
	for i, word := range strings.Split(expr, ",") {
		word = strings.TrimSpace(word)
		name, remove := strings.CutPrefix(word, "-")
		named, err := selectWord(name)
		if err != nil {
			return Selection{}, err
		}
		switch {
		case remove && i == 0:
			s = DefaultSelection().Minus(named)
		case remove:
			s = s.Minus(named)
		default:
			s = s.Union(named)
		}
	}
	return s, nil
}

// selectWord resolves one word of a selection, its minus cut off.
func selectWord(name string) (Selection, error) {
	switch name {
	case "all":
		return AllSelection(), nil
	case "default":
		return DefaultSelection(), nil
	}
	if m, ok := LookupName(name); ok {
		return Select(m.ID), nil
	}
	var s Selection
	known := false
	for m := range allRows() {
		if hasPrefix(m.Name, name) {
			known = true
			s.add(m)
		}
	}
	if !known {
		return Selection{}, &UnknownError{Word: name, Near: nearNames(name)}
	}
	return s, nil
}

// maxNear bounds the names that an error offers.
const maxNear = 4

// nearNames lists what a mistyped name may have meant: names and groups that are few edits away, and those that
// have the word in them.
func nearNames(word string) []string {
	if word == "" {
		return nil
	}
	word = strings.ToLower(word)
	limit := max(2, len(word)/6)
	var near []string
	edits := map[string]int{}
	for _, name := range namesAndGroups() {
		n := EditDistance(word, name)
		if len(word) >= 3 && strings.Contains(name, word) {
			n = min(n, limit)
		}
		if n <= limit {
			near, edits[name] = append(near, name), n
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(edits[a], edits[b]) })
	near = near[:min(len(near), maxNear)]
	far := func(name string) bool { return edits[name] > edits[near[0]]+1 }
	if i := slices.IndexFunc(near, far); i >= 0 {
		near = near[:i]
	}
	return near
}

// namesAndGroups lists every word that selects something.
func namesAndGroups() []string {
	names := slices.Concat([]string{"all", "default"}, groupNames(1), groupNames(2))
	for m := range allRows() {
		names = append(names, m.Name)
	}
	return names
}

// groupNames lists the distinct first one or more words of all names, in the order of the table.
func groupNames(words int) []string {
	var list []string
	for m := range allRows() {
		parts := strings.SplitN(m.Name, "_", words+1)
		if len(parts) <= words {
			continue
		}
		if group := strings.Join(parts[:words], "_"); !slices.Contains(list, group) {
			list = append(list, group)
		}
	}
	return list
}

// EditDistance counts the insertions, deletions and substitutions of bytes that make b of a.
func EditDistance(a, b string) int {
	costs := make([]int, len(b)+1)
	for j := range costs {
		costs[j] = j
	}
	for i := range len(a) {
		diagonal := costs[0]
		costs[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = costs[j+1]
			costs[j+1] = min(substitute, costs[j]+1, costs[j+1]+1)
		}
	}
	return costs[len(b)]
}
