// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/procstats"
)

// recordOutput is the destination of the final record by --record-file or --record-fd; nil for stderr.
type recordOutput struct {
	file *os.File
	path string
	// created is set if there was no file at path.
	created bool
	// inherited is set for a descriptor of the caller, who owns its offset.
	inherited bool
}

// openOutput opens the destination before the command starts, to fail early. The file keeps its contents until the
// command has started.
func (o *runOptions) openOutput() (*recordOutput, error) {
	switch {
	case o.recordFile != "":
		_, missing := os.Lstat(o.recordFile) // not of a symbolic link to a file that does not exist
		file, err := os.OpenFile(o.recordFile, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--record-file: %w", err)
		}
		return &recordOutput{file: file, path: o.recordFile, created: errors.Is(missing, fs.ErrNotExist)}, nil
	case o.recordFD > 0:
		return o.openDescriptor()
	}
	return nil, nil //nolint:nilnil // stderr
}

// truncate deletes the previous contents of a file.
func (r *recordOutput) truncate() error {
	if r == nil || r.inherited {
		return nil
	}
	info, err := r.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return r.file.Truncate(0)
}

// discard closes an unused destination and removes the file if it was created.
func (r *recordOutput) discard() error {
	if r == nil {
		return nil
	}
	err := r.file.Close()
	if r.created {
		err = errors.Join(err, os.Remove(r.path))
	}
	return err
}

// report writes the final record or the summary, as --format and --summary say: to output, or to stderr if that is nil.
func (o *runOptions) report(cmd *cobra.Command, output *recordOutput, final *record.Record) error {
	switch {
	case output != nil:
		return errors.Join(o.writeResult(cmd, output.file, final), output.file.Close())
	case o.silent():
		return nil
	}
	return o.writeResult(cmd, cmd.ErrOrStderr(), final)
}

// checkOutput rejects a destination for the record that nothing would be written to.
func (o *runOptions) checkOutput() error {
	hasFD, given := o.flags.Changed("record-fd"), "--record-file"
	if hasFD {
		given = "--record-fd"
	}
	switch {
	case o.recordFile == "" && !hasFD:
	case o.recordFile != "" && hasFD:
		return cli.Usagef("--record-file and --record-fd are mutually exclusive")
	case hasFD && o.recordFD < 1:
		return cli.Usagef("--record-fd %d: must be at least 1", o.recordFD)
	case o.detach:
		return cli.Usagef("%s: not possible with --detach; the record is in the directory of the run", given)
	case o.format.String() == "text" && o.summary.String() == "none":
		return cli.Usagef("%s: nothing to write; remove --summary none, or add --format json", given)
	}
	return nil
}

// silent reports whether nothing is printed on stderr at the end.
func (o *runOptions) silent() bool {
	return o.format.String() != "json" && (o.quiet || o.summary.String() == "none")
}

func (o *runOptions) writeResult(cmd *cobra.Command, out io.Writer, final *record.Record) error {
	if o.format.String() == "json" {
		return cli.PrintJSON(out, final)
	}
	name := "" // without a record on disk
	if !o.noFiles {
		name = rundir.Word(o.outputDir, final.ID)
	}
	return summary.Write(cmd, out, o.summary.String() == "full", name, final)
}

// exitOf returns the error that makes tacho exit with the code of the command; nil for 0.
func exitOf(final *record.Record) error {
	switch code := final.ExitCode; {
	case final.Diagnosis.Verdict == record.TimedOut:
		return cli.ExitWith(exitTimedOut, nil)
	case code != nil && *code != 0:
		return cli.ExitWith(*code, nil)
	}
	return nil
}

// writeTextFile writes the final values of a run as Prometheus text, whole or not at all: a node exporter may read at
// any time.
func writeTextFile(path string, final *record.Record) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("--textfile: %w", err)
	}
	err = errors.Join(exposition.Text.Write(file, finalFamilies(final)), file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("--textfile: %w", errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}

// finalFamilies are the metrics of a run that has ended. They are gauges: the next run of the same job replaces them.
// What was not measured has no sample.
func finalFamilies(final *record.Record) []exposition.Family {
	labels := runLabels(final)
	info := exposition.Family{Name: "tacho_run_info", Help: "How the run ended as a label, always 1."}
	info.Add(labels.With("outcome", string(final.End().Outcome)), 1)
	all := []exposition.Family{info}
	add := func(name, help string, value float64) {
		f := exposition.Family{Name: "tacho_run_" + name, Help: help}
		f.Add(labels, value)
		all = append(all, f)
	}
	if final.ExitCode != nil {
		add("exit_code", "The exit code of the command; 128 and the number of the signal that ended it.",
			float64(*final.ExitCode))
	}
	if kills := final.Diagnosis.OOM.Kills; kills != nil {
		add("oom_kills", "OOM kills during the run.", float64(*kills))
	}
	add("end_time_seconds", "When the command ended, in seconds since 1970.", float64(final.EndedAt.UnixMilli())/1000)
	if final.WallSeconds != nil {
		add("wall_seconds", "Time from the start to the end of the command.", *final.WallSeconds)
	}
	for _, m := range procstats.Table() {
		if h := final.Headline[m.Name]; m.Scope == procstats.HeadlineScope && h.Value != nil {
			add(strings.TrimSuffix(m.Name, "_total"), m.Help+" Of one run; guarantee: "+string(h.Guarantee)+".", *h.Value)
		}
	}
	return all
}

// runLabels are the name of the command's program and the labels of the run.
func runLabels(final *record.Record) *exposition.Labels {
	pairs := []string{"command", filepath.Base(final.Command[0])}
	invalid := regexp.MustCompile(`[^a-zA-Z0-9_]`)
	taken := map[string]bool{"command": true, "outcome": true}
	for _, name := range slices.Sorted(maps.Keys(final.Labels)) {
		label := invalid.ReplaceAllString(name, "_")
		if label[0] >= '0' && label[0] <= '9' || strings.HasPrefix(label, "__") {
			label = "label_" + strings.Trim(label, "_")
		}
		if !taken[label] {
			taken[label] = true
			pairs = append(pairs, label, final.Labels[name])
		}
	}
	return exposition.NewLabels(pairs...)
}
