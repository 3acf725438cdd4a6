// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tachograph/tacho/agent/allocation"
	"github.com/tachograph/tacho/agent/collector"
	"github.com/tachograph/tacho/agent/folder"
)

// lostFolders are the folders of allocations that nobody knows any more, with the time of their making: the state was
// damaged, or a removal cut short.
func (a *Agent) lostFolders() (map[string]time.Time, error) {
	entries, err := os.ReadDir(a.allocDir())
	if err != nil {
		return nil, fmt.Errorf("list allocation folders: %w", err)
	}
	// Those that could not be taken up are known to the state only.
	kept, err := a.store.Allocations()
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	known := make(map[string]bool)
	for _, l := range kept {
		known[l.ID] = true
	}
	for _, l := range a.list() {
		known[l.id] = true
	}
	lost := make(map[string]time.Time)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.IsDir() && allocation.IsID(entry.Name()) && !known[entry.Name()] {
			lost[entry.Name()] = info.ModTime()
		}
	}
	return lost, nil
}

// endLostLogs ends the log collectors of allocations that nobody knows any more. Their tasks were killed.
func (a *Agent) endLostLogs(ctx context.Context) error {
	lost, err := a.lostFolders()
	errs := []error{err}
	for id := range lost {
		errs = append(errs, collector.EndAll(ctx, folder.In(a.allocDir(), id).Logs()))
	}
	return errors.Join(errs...)
}

// removeLost removes the folders of allocations that nobody knows any more and that are old.
func (a *Agent) removeLost(age time.Duration, now time.Time) (removed int, err error) {
	lost, err := a.lostFolders()
	errs := []error{err}
	for id, made := range lost {
		if now.Sub(made) < age {
			continue
		}
		if err := folder.In(a.allocDir(), id).Remove(); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}
