// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
)

// describe says an executor's event in a user's words; ok is false for those that a user has no use for.
func (t *task) describe(ctx context.Context, event *proto.Event) (message string, annotations map[string]string, ok bool) {
	switch event.GetKind() {
	case "launched":
		return startedText(t.state.Attributes), t.state.Attributes, true
	case "stopping", "main_exited":
		// The host says these itself.
		return "", nil, false
	case "exited":
		select {
		case <-t.done:
		case <-ctx.Done():
			return "", nil, false
		}
		if t.final != nil {
			return endMessage(t.final), recordAnnotations(t.final), true
		}
	}
	annotations = maps.Clone(event.GetAnnotations())
	if annotations == nil {
		annotations = make(map[string]string)
	}
	annotations["kind"] = event.GetKind()
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
		case source.GetReason() != "":
			a["source."+source.GetName()] = source.GetReason()
		}
	}
	a[attrSources] = strings.Join(sources, ", ")
	if notes := launched.GetNotes(); len(notes) > 0 {
		a[attrNotes] = strings.Join(notes, "; ")
	}
	return a
}

// folderOf is the one cgroup folder that tells a user most: of v2, else of the memory controller, else any.
func folderOf(c *proto.Cgroup) string {
	if c.GetV2() != "" && len(c.GetV1()) == 0 {
		return c.GetV2()
	}
	if dir := c.GetV1()["memory"]; dir != "" {
		return dir
	}
	for _, controller := range slices.Sorted(maps.Keys(c.GetV1())) {
		return c.GetV1()[controller]
	}
	return c.GetV2()
}

// limitText is a limit as the kernel holds it.
func limitText(limit *proto.EffectiveLimit) string {
	if limit.Effective == nil {
		return "none"
	}
	if strings.HasSuffix(limit.GetName(), "_bytes") {
		return procstats.Bytes.Text(limit.GetEffective())
	}
	return strconv.FormatFloat(limit.GetEffective(), 'f', -1, 64)
}

// startedText says what a task was started with: "Started as process 4711, limits memory_max 400 MiB, …".
func startedText(a map[string]string) string {
	text := "started process " + a[attrMain]
	var limits []string
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if name, isLimit := strings.CutPrefix(key, attrLimit); isLimit && a[key] != "none" {
			name = strings.TrimSuffix(strings.TrimPrefix(name, "cgroup_"), "_bytes")
			limits = append(limits, name+" "+a[key])
		}
	}
	if len(limits) > 0 {
		text += ", limits as read back: " + strings.Join(limits, ", ")
	} else {
		text += ", no limits"
	}
	if dir := a[attrCgroup]; dir != "" {
		text += "; cgroup " + dir
	} else {
		text += "; no cgroup"
	}
	if a[attrSources] != "" {
		text += "; measured by " + a[attrSources]
	}
	if a[attrNotes] != "" {
		text += "; " + a[attrNotes]
	}
	return text
}

// endOfStream is nil for the end of a stream.
func endOfStream(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
