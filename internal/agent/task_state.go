// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"slices"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/state"
)

// appendEvent adds the newest event; the oldest leave.
func appendEvent(events []allocation.Event, e allocation.Event) []allocation.Event {
	if len(events) >= allocation.MaxEvents {
		events = events[len(events)-allocation.MaxEvents+1:]
	}
	return append(slices.Clone(events), e)
}

// update changes what is persisted of the task for something that has happened. It is on disk before anybody sees it, if the
// disk takes it: a counter that was seen must not fall because the agent is killed.
func (t *task) update(change func(*state.Task)) {
	t.saving.Lock()
	defer t.saving.Unlock()
	persisted := t.changed(change)
	t.agent.persist(state.ChangeTask(t.alloc.id, t.spec.Name, &persisted))
	t.show(change)
}

// apply changes what is persisted of the task for something that is about to happen: on disk first. An error means that nothing
// has changed.
func (t *task) apply(change func(*state.Task)) error {
	t.saving.Lock()
	defer t.saving.Unlock()
	persisted := t.changed(change)
	if err := t.agent.apply(state.ChangeTask(t.alloc.id, t.spec.Name, &persisted)); err != nil {
		return err
	}
	t.show(change)
	return nil
}

// changed returns what is to be persisted.
func (t *task) changed(change func(*state.Task)) state.Task {
	t.mu.Lock()
	persisted := t.persisted
	t.mu.Unlock()
	change(&persisted)
	return persisted
}

// show lets everybody see what has been persisted.
func (t *task) show(change func(*state.Task)) {
	t.mu.Lock()
	change(&t.persisted)
	t.mu.Unlock()
	t.alloc.taskChanged()
}
