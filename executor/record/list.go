// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tachograph/tacho/procstats"
)

// Entry is one folder in a root of runs.
type Entry struct {
	// Name is the folder's name, by which the run is called.
	Name string
	// Dir is the folder's path.
	Dir string
	// Record is nil where Err says why it could not be read.
	Record *Record
	Err    error
}

// ListBriefly reads the records of all runs in a folder of runs for a table, newest start first, unreadable ones after
// them by name: of the headlines the records have the CPU time and the peak of memory, and they lack other
// measurements, processes, evidence and sources, see [Whole]. The error is for the folder itself; one that does not
// exist has no runs.
func ListBriefly(root string) ([]Entry, error) {
	names, err := Names(root)
	return listBriefly(root, names), err
}

// ListNewest is ListBriefly for at least the newest runs, which it finds by their names without reading all records. It
// reads some more: a name begins with the second of the start, which many share, in local time, which may be set back.
func ListNewest(root string, least int) ([]Entry, error) {
	const more = 150
	all, err := Names(root)
	named := slices.IndexFunc(all, func(name string) bool { return begin(name) == "" })
	if named < 0 {
		named = len(all)
	}
	return listBriefly(root, slices.Delete(all, min(least+more, named), named)), err // nothing is known of the others
}

func listBriefly(root string, names []string) []Entry {
	entries := make([]Entry, len(names))
	for i, name := range names {
		entries[i] = Entry{Name: name, Dir: filepath.Join(root, name)}
	}
	readAll(entries, true)
	slices.SortStableFunc(entries, newestFirst)
	return entries
}

// Whole reads the whole records of runs that were listed briefly, in their place.
func Whole(entries []Entry) []Entry {
	readAll(entries, false)
	return entries
}

// readAll reads the records of entries, on all CPUs.
func readAll(entries []Entry, brief bool) {
	var next atomic.Int64
	var readers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		readers.Go(func() {
			var text bytes.Buffer
			for i := next.Add(1) - 1; i < int64(len(entries)); i = next.Add(1) - 1 {
				entries[i].Record, entries[i].Err = read(&text, entries[i].Dir, brief)
			}
		})
	}
	readers.Wait()
}

// begin returns the time in the name of a run; empty if the name has none.
func begin(name string) string {
	const layout = "00000000T000000"
	if len(name) < len(layout) {
		return ""
	}
	for i, c := range []byte(layout) {
		if digit := '0' <= name[i] && name[i] <= '9'; name[i] != c && (c == 'T' || !digit) {
			return ""
		}
	}
	return name[:len(layout)]
}

// Names returns the names of all runs in a folder of runs: by the time in them, the newest first, then those without.
func Names(root string) (names []string, err error) {
	folders, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	for _, folder := range folders {
		if folder.IsDir() {
			names = append(names, folder.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(strings.Compare(begin(b), begin(a)), cmp.Compare(len(b), len(a)), strings.Compare(b, a))
	})
	return names, nil
}

func newestFirst(a, b Entry) int {
	switch {
	case a.Record == nil && b.Record == nil:
		return strings.Compare(a.Name, b.Name)
	case a.Record == nil:
		return 1
	case b.Record == nil:
		return -1
	}
	return cmp.Or(b.Record.StartedAt.Compare(a.Record.StartedAt), strings.Compare(b.Name, a.Name))
}

// shorten leaves out what a table does not show, which is most of a record. It finds parts by the indentation of Put,
// since JSON has no line breaks within a string, and returns nil for every other text.
func shorten(text []byte) []byte {
	short, ok := cutParts(text, "\n  \"", func(name string, part []byte) []byte {
		switch name {
		case "absent", "measurements", "selection", "sources", "processes", "commands", "devices", "peak", "limits",
			"guarantees", "cgroup", "notes":
			return nil
		case "headline":
			return keepMembers(part, func(name string) bool {
				return name == procstats.HeadlineCPU.String() || name == procstats.HeadlineMemoryPeak.String()
			})
		case "diagnosis":
			return keepMembers(part, func(name string) bool { return name != "evidence" && name != "last_reading" })
		}
		return part
	})
	if !ok {
		return nil
	}
	return short
}

// keepMembers leaves some members of an object that is a member itself.
func keepMembers(part []byte, keep func(name string) bool) []byte {
	before, object, _ := bytes.Cut(part, []byte(": "))
	object, ok := cutParts(object, "\n    \"", func(name string, part []byte) []byte {
		if !keep(name) {
			return nil
		}
		return part
	})
	if !ok {
		return part
	}
	return slices.Concat(before, []byte(": "), object)
}

// cutParts cuts an object before each member, and joins again what choose makes of them; ok is false for what is no
// object of such members.
func cutParts(text []byte, before string, choose func(name string, part []byte) []byte) (object []byte, ok bool) {
	text, closed := bytes.CutSuffix(bytes.TrimSpace(text), []byte("}"))
	text, opened := bytes.CutPrefix(text, []byte("{"+before))
	if !closed || !opened {
		return nil, false
	}
	object = append(make([]byte, 0, len(text)/4), '{')
	for part := range bytes.SplitSeq(text, []byte(before)) {
		part = bytes.TrimSuffix(bytes.TrimSpace(part), []byte(","))
		name, _, _ := bytes.Cut(part, []byte(`"`))
		if part = choose(string(name), part); part == nil {
			continue
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(append(object, '"'), part...)
	}
	return append(object, '}'), true
}
