// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package rundir finds the runs that tacho run has recorded in a directory, by name and with their current state.
package rundir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/repeat"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// words is the help text for what names a run, which Find resolves.
const words = `RUN is the name of a run as shown by tacho ls, a prefix of it, the path of its
directory, its --name, last (the newest run), or last~1 (the one before it).
Without it, last is meant.`

// last names the newest run.
const last = "last"

// ForRuns makes a command out of what it does with the runs that its arguments name, at most so many. Without arguments
// these are the runs that defaults name. {RUN} in its help becomes words.
func ForRuns(cmd *cobra.Command, most int, defaults []string, do func(*cobra.Command, []record.Entry) error) {
	outputDir := AddOutputDir(cmd)
	cmd.ValidArgsFunction = Complete(outputDir, most)
	cmd.Long = strings.ReplaceAll(cmd.Long, "{RUN}", words)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if len(names) == 0 {
			names = defaults
		}
		var runs []record.Entry
		for _, word := range names {
			run, err := Find(*outputDir, word)
			if err != nil {
				return err
			}
			runs = append(runs, run)
		}
		return do(cmd, runs)
	}
}

// Last is the default of commands for one run: the newest.
func Last() []string { return []string{last} }

// AddOutputDir adds --output-dir, the directory of runs.
func AddOutputDir(cmd *cobra.Command) *string {
	dir := cmd.Flags().String("output-dir", record.DefaultRoot, "`DIR` with one directory per run")
	_ = cmd.MarkFlagDirname("output-dir") // fails only for a flag that does not exist
	return dir
}

// Find returns the run that word names, with its record. If the record cannot be read, it returns the error with the
// rest of the entry.
func Find(root, word string) (record.Entry, error) {
	if word == last {
		word += "~0"
	}
	if number, found := strings.CutPrefix(word, last+"~"); found {
		back, err := strconv.ParseUint(number, 10, 31)
		if err != nil {
			return record.Entry{}, cli.Usagef("%s: must be last~ and a whole number, such as last~1 for the run before the last",
				word)
		}
		return newest(root, int(back))
	}
	if strings.ContainsRune(word, filepath.Separator) || strings.ContainsRune(word, '/') {
		return read(word)
	}
	names, err := record.Names(root)
	if err != nil {
		return record.Entry{}, err
	}
	if slices.Contains(names, word) {
		return read(filepath.Join(root, word))
	}
	matching := slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) })
	if word != "" && len(matching) == 0 {
		entries, _ := record.ListBriefly(root) // the newest first
		for _, entry := range entries {
			if entry.Err == nil && entry.Record.Labels[repeat.NameLabel] == word {
				return read(entry.Dir)
			}
		}
	}
	switch {
	case word == "" || len(matching) == 0:
		return record.Entry{}, fmt.Errorf("no run %q in %s (tacho ls lists the runs)", word, root)
	case len(matching) > 1:
		return record.Entry{}, fmt.Errorf("%q is the prefix of several runs: %s", word, cli.SomeOf(matching))
	}
	return read(filepath.Join(root, matching[0]))
}

func read(path string) (record.Entry, error) {
	dir := filepath.Clean(path)
	if filepath.Base(dir) == record.InfoFile {
		dir = filepath.Dir(dir)
	}
	entry := record.Entry{Name: filepath.Base(dir), Dir: dir}
	entry.Record, entry.Err = record.Read(dir)
	if errors.Is(entry.Err, fs.ErrNotExist) {
		return entry, fmt.Errorf("no run at %s: %w", dir, entry.Err)
	}
	return entry, entry.Err
}

// Word names a run of a directory of runs in a command line: with its path, unless commands look there without
// --output-dir.
func Word(outputDir, name string) string {
	if filepath.Clean(outputDir) != filepath.Clean(cmp.Or(os.Getenv("TACHO_OUTPUT_DIR"), record.DefaultRoot)) {
		if name = filepath.Join(outputDir, name); !strings.ContainsRune(name, filepath.Separator) {
			name = "." + string(filepath.Separator) + name // else it would be looked for among the runs
		}
	}
	return cli.CommandLine([]string{name})
}

// newest returns the newest run, or one that is older by as many runs as back says.
func newest(root string, back int) (record.Entry, error) {
	entries, err := record.ListNewest(root, back+1)
	if err != nil {
		return record.Entry{}, err
	}
	if len(entries) == 0 {
		return record.Entry{}, NoRunsError(root)
	}
	if back >= len(entries) {
		return record.Entry{}, fmt.Errorf("last~%d: only %s in %s, the oldest is last~%d",
			back, procstats.Counted(len(entries), "run", "runs"), root, len(entries)-1)
	}
	return read(entries[back].Dir)
}

// History returns the records of a run and then of those of the same command in the same directory beside it, the
// newest first: at most 50, of the newest 200 runs there.
func History(of record.Entry) ([]*record.Record, error) {
	const most = 50
	all, err := record.ListNewest(filepath.Dir(of.Dir), most) // and 150 more
	like := slices.DeleteFunc(all, func(e record.Entry) bool {
		return e.Err != nil || e.Name == of.Name || e.Record.Dir != of.Record.Dir ||
			!slices.Equal(e.Record.Command, of.Record.Command)
	})
	records := []*record.Record{of.Record}
	for _, entry := range record.Whole(like[:min(len(like), most-1)]) {
		if entry.Err == nil {
			records = append(records, entry.Record)
		}
	}
	return records, err
}

// NoRunsError returns the error that root has no runs.
func NoRunsError(root string) error {
	return fmt.Errorf("no runs in %s (tacho run creates one; --output-dir chooses another directory)", root)
}

// Complete completes the first n arguments with the names of runs.
func Complete(outputDir *string, n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// cobra completes without running the root's PersistentPreRunE.
		if err := cli.ApplyEnvironment(cmd, nil); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names, err := record.Names(*outputDir)
		if err != nil || len(names) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return append(names, last), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// Refresh updates the record of a run that has no end: its state now, and the numbers of its last report.
func Refresh(entry record.Entry) {
	UpdateState(entry.Record, kernel.HostFS())
	entry.Record.FillFromReports(record.ReadUsage(entry.Dir))
}

// UpdateState sets the state that a run has now. If the record says running and the executor has ended, the run is
// lost: the record was not completed and never will be. One that is elsewhere counts as running.
func UpdateState(r *record.Record, host kernel.FS) {
	if r.State != record.Running {
		return
	}
	home, process := r.Measurer()
	var err error
	if name, _ := os.Hostname(); runtime.GOOS != "linux" && r.Host.OS == runtime.GOOS && r.Host.Name == name {
		now, unread := source.Identify(host, process.PID) // without boots and namespaces, which only Linux names
		if kernel.Gone(unread) || unread == nil && now != process {
			err = kernel.ErrEnded
		}
	} else {
		err = kernel.Find(host, home, process, r.Socket)
	}
	if errors.Is(err, kernel.ErrEnded) {
		r.State = record.Lost
	} else if err != nil {
		r.Where = err.Error()
	}
}
