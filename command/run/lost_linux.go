// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats/kernel"
)

// lost kills the processes of a dead executor and completes the record.
func (s *session) lost() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ended := time.Now()
	err := s.client.KillTask(ctx)
	if s.dir != "" {
		markErr := markLost(s.dir, ended)
		if errors.Is(markErr, os.ErrNotExist) { // the command was never started
			markErr = s.removeDir()
		}
		err = errors.Join(err, markErr)
	}
	err = errors.Join(err, s.client.Close(), s.streams.close())
	// The executor has been reaped: all children of this subreaper are processes of the command.
	err = errors.Join(err, process.KillChildren(ctx, kernel.HostFS()))
	s.screen.endLine()
	return errors.Join(fmt.Errorf("the command was killed: %w", client.ErrLost), err)
}

// markLost completes the record of a run whose executor died before it did. If the time is unknown, ended is zero.
func markLost(dir string, ended time.Time) error {
	r, err := record.Read(dir)
	if err != nil || r.State != record.Running {
		return err
	}
	r.State, r.EndedAt = record.Lost, ended
	r.FillFromReports(record.ReadUsage(dir))
	if !ended.IsZero() {
		wall := ended.Sub(r.StartedAt).Seconds()
		r.WallSeconds = &wall
	}
	r.Diagnosis = record.Diagnose(record.Evidence{Cause: record.ExecutorLost})
	store, err := record.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(store.Put(r), store.Close())
}
