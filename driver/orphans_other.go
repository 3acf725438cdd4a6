// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package driver

import (
	"context"

	"github.com/tachograph/tacho/executor/record"
)

// FinalRecord returns [ErrTaskNotFound]: there are no tasks here.
func (d *Tacho) FinalRecord(string) (*record.Record, error) { return nil, ErrTaskNotFound }

// Commands returns [ErrTaskNotFound].
func (d *Tacho) Commands(string) (*record.Commands, error) { return nil, ErrTaskNotFound }

// KillOrphans finds none: there are no executors here.
func (d *Tacho) KillOrphans(context.Context, ...*TaskHandle) ([]string, error) { return nil, nil }
