// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/plugin/proto/records"
	"github.com/tachograph/tacho/plugin/wire"
)

// recordLimit bounds the wait for what a plugin has measured of a task. It has it in memory.
const recordLimit = 2 * time.Second

// FinalRecord implements driver.Recorder. Drivers of others, and older builds of ours, have none.
func (r *Remote) FinalRecord(id string) (*record.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), recordLimit)
	defer cancel()
	m, err := r.records.FinalRecord(ctx, &records.FinalRecordRequest{TaskId: id})
	return recorded[record.Record](m.GetRecordJson(), err)
}

// Commands implements driver.Recorder. Drivers of others, and older builds of ours, do not count them.
func (r *Remote) Commands(id string) (*record.Commands, error) {
	ctx, cancel := context.WithTimeout(context.Background(), recordLimit)
	defer cancel()
	m, err := r.records.Commands(ctx, &records.CommandsRequest{TaskId: id})
	return recorded[record.Commands](m.GetCommandsJson(), err)
}

// recorded decodes an answer; nil if the plugin has none.
func recorded[T any](text []byte, err error) (*T, error) {
	if err = wire.Error(err); errors.Is(err, driver.ErrNotSupported) || err == nil && len(text) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	answer := new(T)
	if err := json.Unmarshal(text, answer); err != nil {
		return nil, fmt.Errorf("decode record of plugin: %w: %w", err, driver.ErrInvalid)
	}
	return answer, nil
}
