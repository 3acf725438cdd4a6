// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Sample is what the endpoint shows of a task.
func (d *Tacho) Sample(ctx context.Context, id string, maxAge time.Duration) (*procstats.Sample, error) {
	t, err := d.find(id)
	if err != nil {
		return nil, err
	}
	return t.sample(ctx, maxAge, false)
}

// HurryCalls lets calls that wait for a change end before they have got to the executor, as on a machine that is too
// busy.
func (d *Tacho) HurryCalls() { d.patience.quiet = time.Nanosecond }

// HurryStops suspects an executor soon that does not end its task.
func (d *Tacho) HurryStops() {
	d.patience.overdue, d.patience.silent = 1500*time.Millisecond, 500*time.Millisecond
}

// HurryReports reports running tasks soon, as behind a wire after a day.
func (d *Tacho) HurryReports() { d.patience.report = 200 * time.Millisecond }

// MarkDestroyed is what DestroyTask does first.
func (d *Tacho) MarkDestroyed(id string) error {
	t, err := d.find(id)
	if err == nil {
		t.markDestroyed()
	}
	return err
}

// UntilReport is when a running task is reported next.
func UntilReport(age, first time.Duration) time.Duration { return untilReport(age, first) }
