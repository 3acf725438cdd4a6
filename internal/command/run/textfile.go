// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/procstats"
)

// writeTextFile writes the final values of a run as Prometheus text, whole or not at all: a node exporter may read at
// any time.
func writeTextFile(path string, final *record.Record) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("--textfile: %w", err)
	}
	err = errors.Join(exposition.WriteText(file, finalFamilies(final)), file.Chmod(0o644), file.Close())
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
