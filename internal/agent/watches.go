// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"maps"
	"slices"
	"time"

	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// watchWhole is how often all patterns are matched even if no directory seems to have changed.
const watchWhole = time.Minute

// watch follows the cgroups of the watch block as they come and go, until the agent ends. Without any it sleeps until
// the configuration changes.
func (a *Agent) watch() {
	defer func() { // the histories stay for the next agent
		for _, w := range a.watches() {
			w.End(false)
		}
	}()
	looked := &kernel.Looked{}
	var whole time.Time
	for {
		c := a.current()
		var next <-chan time.Time
		if !c.Telemetry.PublishAllocationMetrics {
			c.Watch.Cgroups = nil
		}
		if len(c.Watch.Cgroups) > 0 {
			next = time.After(max(c.Watch.Every, time.Second))
		}
		if next == nil || looked.Changed() || time.Since(whole) >= watchWhole ||
			slices.ContainsFunc(a.watches(), (*alloc.Watched).Removed) {
			found := make(map[string]procstats.Cgroup)
			looked, whole = &kernel.Looked{}, time.Now()
			mounts, err := kernel.CgroupMounts(kernel.HostFS())
			if err != nil {
				a.log.Error("watch cgroups", "error", err)
			}
			for _, pattern := range c.Watch.Cgroups {
				kernel.MatchCgroups(mounts, pattern, found, looked)
			}
			if a.follow(found, c.Watch.Every) {
				whole = time.Time{}
			}
		}
		select {
		case <-next:
		case <-a.rewatch:
			whole = time.Time{}
		case <-a.host.Context.Done():
			return
		}
	}
}

// follow begins to read the cgroups that were found, and ends to read all others. It reports whether it has to look
// again soon, because some were new.
func (a *Agent) follow(found map[string]procstats.Cgroup, every time.Duration) (again bool) {
	for _, w := range a.watches() {
		if group, ok := found[w.Path]; ok && w.Follows(group, every) {
			delete(found, w.Path)
			continue
		}
		a.mu.Lock()
		delete(a.watched, w.ID)
		a.mu.Unlock()
		w.End(true)
	}
	for path, group := range found {
		if group.Procs() == "" || a.host.Context.Err() != nil {
			continue // no controller of it measures
		}
		again = true
		if w := alloc.Watch(a.host, path, group, every); w != nil {
			a.mu.Lock()
			a.watched[w.ID] = w
			a.mu.Unlock()
			w.Begin()
		}
	}
	return again
}

// watches lists the cgroups that are read.
func (a *Agent) watches() []*alloc.Watched {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.watched))
}
