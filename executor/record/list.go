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
	"time"

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

// List reads the records of all runs in a folder of runs, newest start first, unreadable ones after them by
// name. The error is for the folder itself; one that does not exist has no runs.
func List(root string) ([]Entry, error) {
	return list(root, func(all []string) []string { return all }, Read)
}

// ListBriefly is List for a table: of the headlines the records have the CPU time and the peak of memory, and they lack
// other measurements, processes and sources.
func ListBriefly(root string) ([]Entry, error) {
	return list(root, func(all []string) []string { return all }, readBriefly)
}

func readBriefly(dir string) (*Record, error) { return read(dir, shorten) }

// ListNewest is ListBriefly for at least the newest runs, which it finds by their names without reading all records. It
// reads some more: a name begins with the second of the start, which many share, in local time, which may be set back.
func ListNewest(root string, least int) ([]Entry, error) {
	const more = 150
	return list(root, func(all []string) []string {
		slices.SortFunc(all, func(a, b string) int {
			return cmp.Or(strings.Compare(begin(b), begin(a)), cmp.Compare(len(b), len(a)), strings.Compare(b, a))
		})
		named := slices.IndexFunc(all, func(name string) bool { return begin(name) == "" })
		if named < 0 {
			named = len(all)
		}
		return slices.Delete(all, min(least+more, named), named) // nothing is known of the others
	}, readBriefly)
}

// begin returns the time in the name of a run; empty if the name has none.
func begin(name string) string {
	const layout = "20060102T150405"
	if len(name) < len(layout) {
		return ""
	}
	if _, err := time.Parse(layout, name[:len(layout)]); err != nil {
		return ""
	}
	return name[:len(layout)]
}

// Names returns the names of all runs in a folder of runs, in order.
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
	return names, nil
}

// list reads the records of some runs, on all CPUs.
func list(root string, choose func([]string) []string, read func(dir string) (*Record, error)) ([]Entry, error) {
	names, err := Names(root)
	if err != nil {
		return nil, err
	}
	names = choose(names)
	entries := make([]Entry, len(names))
	var next atomic.Int64
	var readers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		readers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(names)); i = next.Add(1) - 1 {
				entry := Entry{Name: names[i], Dir: filepath.Join(root, names[i])}
				entry.Record, entry.Err = read(entry.Dir)
				entries[i] = entry
			}
		})
	}
	readers.Wait()
	slices.SortStableFunc(entries, newestFirst)
	return entries, nil
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
			before, object, _ := bytes.Cut(part, []byte(": "))
			object, ok := cutParts(object, "\n    \"", func(name string, part []byte) []byte {
				if name != procstats.HeadlineCPU.String() && name != procstats.HeadlineMemoryPeak.String() {
					return nil
				}
				return part
			})
			if ok {
				return slices.Concat(before, []byte(": "), object)
			}
		}
		return part
	})
	major, _, _ := strings.Cut(SchemaVersion, ".")
	if !ok || !bytes.HasPrefix(short, []byte(`{"schema_version": "`+major+`.`)) {
		return nil
	}
	return short
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
