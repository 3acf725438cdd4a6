// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats/kernel"
)

// RunHelp says in help texts how a run is named.
const RunHelp = `RUN is a run's name as tacho ls shows it, the beginning of one, a path to its folder, or last.`

// last is the name of the newest run, whatever it is called.
const last = "last"

// AddFlag adds --output-dir, the folder of runs.
func AddFlag(cmd *cobra.Command) *string {
	dir := cmd.Flags().String("output-dir", record.DefaultRoot, "folder in which runs are kept")
	_ = cmd.MarkFlagDirname("output-dir") // it fails only for a flag that does not exist
	return dir
}

// Find returns the run that a word names. It is read; where that fails the entry is there with the error.
func Find(root, word string) (record.Entry, error) {
	if word == last {
		return newestRun(root)
	}
	if strings.ContainsRune(word, filepath.Separator) || strings.ContainsRune(word, '/') {
		return runAt(word)
	}
	names, err := runNames(root)
	if err != nil {
		return record.Entry{}, err
	}
	if slices.Contains(names, word) {
		return runAt(filepath.Join(root, word))
	}
	matching := slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) })
	switch {
	case word == "" || len(matching) == 0:
		return record.Entry{}, fmt.Errorf("no run %q in %s (tacho ls lists the runs)", word, root)
	case len(matching) > 1:
		return record.Entry{}, fmt.Errorf("%q begins the names of several runs: %s", word, cli.SomeOf(matching))
	}
	return runAt(filepath.Join(root, matching[0]))
}

func runAt(path string) (record.Entry, error) {
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

func newestRun(root string) (record.Entry, error) {
	entries, err := List(root)
	if err != nil {
		return record.Entry{}, err
	}
	if len(entries) == 0 {
		return record.Entry{}, NoRuns(root)
	}
	return entries[0], entries[0].Err
}

// List lists a folder of runs. That there is no such folder yet is no fault: there are no runs.
func List(root string) ([]record.Entry, error) {
	entries, err := record.List(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

func NoRuns(root string) error {
	return fmt.Errorf("there are no runs in %s (tacho run makes one; --output-dir names another folder)", root)
}

// runNames lists the names in a folder of runs, newest first as far as the names tell, without reading any record.
func runNames(root string) ([]string, error) {
	folders, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var names []string
	for _, folder := range folders {
		if folder.IsDir() {
			names = append(names, folder.Name())
		}
	}
	slices.Reverse(names)
	return names, nil
}

// Complete completes as many run names as a command takes.
func Complete(outputDir *string, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// cobra completes without running the root's PersistentPreRunE.
		if err := cli.ApplyEnvironment(cmd, nil); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names, err := runNames(*outputDir)
		if err != nil || len(names) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return append(names, last), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// StateOf is the run's state as it is now: a record that says running, of a run whose executor is gone, is of a
// lost run, because nobody is left to write it to its end.
func StateOf(r *record.Record, host kernel.FS) record.State {
	if r.State != record.Running {
		return r.State
	}
	who := record.Process{PID: r.PID, StartTicks: r.StartTicks}
	if r.Executor != nil {
		who = *r.Executor
	}
	if alive(host, who, r.BootID) {
		return record.Running
	}
	return record.Lost
}
