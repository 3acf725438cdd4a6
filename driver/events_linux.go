// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// describe says an executor's event in a user's words; ok is false for those that a user has no use for.
func (t *task) describe(event *proto.Event) (message string, annotations map[string]string, ok bool) {
	switch event.GetKind() {
	case "launched":
		return startedText(t.state.Attributes), t.state.Attributes, true
	case "stopping", "main_exited":
		// The host says these itself.
		return "", nil, false
	case "exited":
		if t.final != nil {
			annotations = recordAnnotations(t.final)
			if mhz, known := t.state.Attributes[record.CoreMHzAnnotation]; known {
				annotations[record.CoreMHzAnnotation] = mhz
			}
			return endMessage(t.final), annotations, true
		}
	}
	annotations = make(map[string]string)
	maps.Copy(annotations, event.GetAnnotations())
	annotations["kind"] = event.GetKind()
	if kind := event.GetKind(); kind == "oom_kill" || kind == "oom_victim" { // numbers and the names of processes
		annotations[AnnotationRedacted] = event.GetMessage()
	}
	return event.GetMessage(), annotations, true
}

// Keys of a task's attributes.
const (
	attrCgroup    = "cgroup"
	attrPlacement = "cgroup.placement"
	attrExecutor  = "executor.pid"
	attrMain      = "pid"
	attrLimit     = "limit."
	attrSources   = "sources"
	attrNotes     = "notes"
)

// attributesOf is what is worth knowing of a started task.
func attributesOf(executor procstats.ProcessID, launched *proto.LaunchResponse) map[string]string {
	a := map[string]string{
		attrMain:      strconv.Itoa(int(launched.GetMain().GetPid())),
		attrExecutor:  strconv.Itoa(executor.PID),
		attrPlacement: launched.GetCgroup().GetPlacement(),
	}
	if dir := folderOf(launched.GetCgroup()); dir != "" {
		a[attrCgroup] = dir
	}
	for _, limit := range launched.GetLimits() {
		a[attrLimit+limit.GetName()] = limitText(limit)
	}
	var sources []string
	for _, source := range launched.GetSources() {
		switch {
		case source.GetAvailable():
			sources = append(sources, strings.TrimSpace(source.GetName()+" "+source.GetVersion()))
		case source.GetReason() != "" && source.GetName() != procstats.SourceSkb.String(): // which the driver counts
			a["source."+source.GetName()] = source.GetReason()
		}
	}
	a[attrSources] = strings.Join(sources, ", ")
	if notes := launched.GetNotes(); len(notes) > 0 {
		a[attrNotes] = strings.Join(notes, "; ")
	}
	return a
}

// folderOf is the one cgroup directory that tells a user most: of the memory controller, else any, else of v2.
func folderOf(c *proto.Cgroup) string {
	for _, controller := range append([]string{"memory"}, slices.Sorted(maps.Keys(c.GetV1()))...) {
		if dir := c.GetV1()[controller]; dir != "" {
			return dir
		}
	}
	return c.GetV2()
}

// limitText is a limit as the kernel holds it.
func limitText(limit *proto.EffectiveLimit) string {
	if text := limit.GetEffectiveText(); text != "" {
		return text
	}
	if limit.Effective == nil {
		return "none"
	}
	if strings.HasSuffix(limit.GetName(), "_bytes") {
		return procstats.Bytes.Text(limit.GetEffective())
	}
	return strconv.FormatFloat(limit.GetEffective(), 'f', -1, 64)
}

// startedText says what a task was started with, in a line of a host's list of events: "started pid 4711, memory 400
// MiB, cpu 100 shares". The rest is in the annotations, but for notes: hosts do not show those of events, and a note
// says what the task was to have and has not.
func startedText(a map[string]string) string {
	phrases := []string{"started pid " + a[attrMain]}
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(a))) {
		if name, isLimit := strings.CutPrefix(key, attrLimit); isLimit && a[key] != "none" {
			phrases = append(phrases, limitPhrase(name, a[key]))
		}
	}
	text := strings.Join(phrases, ", ")
	if a[attrNotes] != "" {
		text += "; note: " + a[attrNotes]
	}
	return text
}

// limitPhrase is a limit in a sentence. Limits without a row of the table have the name of their kernel file.
func limitPhrase(name, value string) string {
	switch name {
	case procstats.CgroupMemoryMax.String():
		return "memory " + value
	case procstats.CgroupCPUShares.String():
		return "cpu " + value + " shares"
	case procstats.CgroupCPUWeight.String():
		return "cpu weight " + value
	case "cpuset.cpus":
		return "cpus " + value
	}
	return strings.TrimSuffix(strings.TrimPrefix(name, "cgroup_"), "_bytes") + " " + value
}

// untilReport returns the time until the next report of a running task: at the first age, then each time at twice it.
func untilReport(age, first time.Duration) time.Duration {
	for first <= age {
		first *= 2
	}
	return first - age
}

// reportSoFar adds an event with what the task has used since its start.
func (t *task) reportSoFar(ctx context.Context) {
	s, err := t.sample(ctx, baselineAge, false)
	if err != nil {
		t.log.Warn("report running task", "error", err)
		return
	}
	age := s.Wall.Sub(t.state.StartedAt)
	r := &record.Record{State: record.Running, StartedAt: t.state.StartedAt}
	r.SpanSeconds, r.Host.CPUs, r.Commands = new(age.Seconds()), runtime.NumCPU(), t.commands()
	r.SetMeasured(s)
	r.Headline = record.Headlines(procstats.Headlines(s, procstats.History{Elapsed: age}))
	message := "running for " + procstats.Seconds.Text(age.Seconds())
	if peak := r.Headline[procstats.HeadlineMemoryPeak.String()].Value; peak != nil {
		message += ", peak " + procstats.Bytes.Text(*peak)
	}
	if cores := r.Headline[procstats.HeadlineCoresAverage.String()].Value; cores != nil {
		message += ", " + procstats.Cores.Text(*cores) + " on average"
	}
	t.addEvent(s.Wall, message, map[string]string{
		record.BasisAnnotation: r.AdviceBasis(), record.CoreMHzAnnotation: t.state.Attributes[record.CoreMHzAnnotation],
	}, nil)
}

// logAttributes are the bounds of a task's log files, where its executor writes them.
func logAttributes(logs *proto.Logs) map[string]string {
	if logs == nil {
		return nil
	}
	return map[string]string{
		"logs.max_files":     strconv.FormatUint(uint64(logs.GetMaxFiles()), 10),
		"logs.max_file_size": procstats.Bytes.Text(float64(logs.GetMaxFileBytes())),
	}
}

// addEvent adds an event. sequence is the executor's, nil for events of the driver's own.
func (t *task) addEvent(at time.Time, message string, annotations map[string]string, sequence *uint64) {
	var onPassed func()
	if sequence != nil {
		onPassed = func() { t.persistPassed(*sequence) }
	}
	t.events.add(&Event{
		TaskID: t.config.ID, AllocID: t.config.AllocID, TaskName: t.config.Name,
		Timestamp: at, Message: message, Annotations: annotations,
	}, onPassed)
}

// passStream passes on one stream of events, which ends with attended; nil at its end.
func (t *task) passStream(ctx, attended context.Context) error {
	stream, err := t.client.Events(attended)
	if err != nil {
		return err
	}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if event.GetSequence() <= t.told {
			continue
		}
		if event.GetKind() == "exited" {
			if err := t.awaitEnd(ctx); err != nil {
				return err
			}
		}
		t.told = event.GetSequence()
		if message, annotations, ok := t.describe(event); ok {
			t.addEvent(time.Unix(0, event.GetUnixNs()), message, annotations, new(event.GetSequence()))
		}
	}
}

// passedFile, in the executor's directory, has the sequence of the last event that a host has received, so that a
// driver which is started again neither repeats nor loses one. Received twice is possible, where the process died in
// between.
const passedFile = "events.told"

func (t *task) readPassed() uint64 {
	text, _ := os.ReadFile(filepath.Join(t.state.Address.Folder, passedFile))
	sequence, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil { // of an empty text too
		return 0
	}
	return sequence
}

func (t *task) persistPassed(sequence uint64) {
	if err := t.note(passedFile, strconv.AppendUint(nil, sequence, 10), "driver.events.persist"); err != nil {
		t.log.Warn("persist reported events", "error", err)
	}
}
