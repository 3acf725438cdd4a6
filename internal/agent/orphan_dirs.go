// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/allocdir"
)

// orphanDirs returns the directories of allocations that the state does not know, with the time of their making: the
// state was damaged, or a removal was cut short.
func (a *Agent) orphanDirs() (map[string]time.Time, error) {
	entries, err := os.ReadDir(a.allocDir())
	if err != nil {
		return nil, fmt.Errorf("list allocation directories: %w", err)
	}
	orphans := make(map[string]time.Time)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.IsDir() && allocation.IsID(entry.Name()) {
			orphans[entry.Name()] = info.ModTime()
		}
	}
	for _, l := range a.list() {
		delete(orphans, l.id)
	}
	if len(orphans) == 0 {
		return nil, nil
	}
	// Those that could not be restored are known to the state only.
	persisted, err := a.store.Allocations()
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	for _, l := range persisted {
		delete(orphans, l.ID)
	}
	tasks, err := a.store.Tasks() // of allocations that are lost, too
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	for id := range tasks {
		delete(orphans, id)
	}
	return orphans, nil
}

// removeOrphans removes the directories of allocations that the state does not know and that are old.
func (a *Agent) removeOrphans(age time.Duration, now time.Time) (removed int, err error) {
	orphans, err := a.orphanDirs()
	errs := []error{err}
	for id, made := range orphans {
		if now.Sub(made) < age {
			continue
		}
		if err := allocdir.In(a.allocDir(), id).Remove(); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}
