// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tachograph/tacho/internal/agent/allocdir"
	"github.com/tachograph/tacho/internal/agent/collector"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/registry"
)

// What a logs block says where there is none, as hosts have it.
const (
	defaultLogFiles  = 10
	defaultLogFileMB = 10
)

// collectorOf says how the logs of a task are collected whose driver leaves that to its host.
func collectorOf(dir allocdir.Allocation, spec *job.Task) collector.Options {
	limits := job.Logs{}
	if spec.Logs != nil {
		limits = *spec.Logs
	}
	return collector.Options{
		Dir: dir.Logs(), Task: spec.Name, MaxFiles: cmp.Or(limits.MaxFiles, defaultLogFiles),
		MaxFileBytes: int64(cmp.Or(limits.MaxFileSizeMB, defaultLogFileMB)) << 20,
	}
}

// logPaths are where a driver writes the task's output; empty where it has log files of its own.
func (t *task) logPaths(entry *registry.Entry) (stdout, stderr string, err error) {
	switch {
	case t.spec.Logs != nil && t.spec.Logs.Disabled:
		return os.DevNull, os.DevNull, nil
	case entry.LogsItself():
		return "", "", nil
	}
	stdout, stderr, err = collector.Ensure(collectorOf(t.alloc.dir, t.spec))
	if errors.Is(err, errors.ErrUnsupported) {
		return t.plainLogs()
	}
	return stdout, stderr, err
}

// plainLogs are files, one for each start, where collect logs. They are not rotated while the task runs.
func (t *task) plainLogs() (stdout, stderr string, err error) {
	paths := make([]string, 0, 2)
	for _, stream := range []string{"stdout", "stderr"} {
		path, err := t.alloc.dir.NextLog(t.spec.Name, stream)
		if err != nil {
			return "", "", err
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return "", "", fmt.Errorf("make log file: %w", err)
		}
		paths = append(paths, path)
	}
	return paths[0], paths[1], nil
}

// endLogs waits until all is written of what the task wrote. Nothing of it runs any more.
func (t *task) endLogs(ctx context.Context) {
	if err := collector.End(context.WithoutCancel(ctx), collectorOf(t.alloc.dir, t.spec)); err != nil {
		t.log.Error("logs may be incomplete", "error", err)
		t.agent.counts.fail("logs")
	}
}

// reviveLogs starts the collectors again of tasks that an earlier run of the agent started, where one has died. A
// driver that recovers its task may wait for them.
func (a *Agent) reviveLogs(persisted *leftovers) {
	for _, l := range persisted.allocs {
		j := a.version(l.JobID, l.JobVersion)
		if j == nil || j.Group(l.Group) == nil {
			continue
		}
		for name, t := range persisted.tasks[l.ID] {
			spec := j.Group(l.Group).Task(name)
			if spec == nil || t.Handle == nil || t.Ended {
				continue
			}
			o := collectorOf(allocdir.In(a.allocDir(), l.ID), spec)
			if !o.Serves(t.Handle.Config.StdoutPath) {
				continue
			}
			if _, _, err := collector.Ensure(o); err != nil {
				a.log.Error("collect logs", "alloc_id", l.ID, "task", name, "error", err)
				a.counts.fail("logs")
			}
		}
	}
}
