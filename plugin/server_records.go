// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/records"
	"github.com/tachograph/tacho/plugin/wire"
)

// recordsServer serves what a driver has measured of its tasks to a host that asks for it: our agent does.
type recordsServer struct {
	records.UnimplementedRecordsServer
	driver driver.Recorder
}

func (s *recordsServer) FinalRecord(_ context.Context, req *records.FinalRecordRequest) (*records.FinalRecordResponse, error) {
	final, err := s.driver.FinalRecord(req.GetTaskId())
	if err != nil || final == nil {
		return answer(&records.FinalRecordResponse{}, err)
	}
	text, err := json.Marshal(final)
	if err != nil {
		return nil, wire.Status(fmt.Errorf("encode final record: %w", err))
	}
	return &records.FinalRecordResponse{RecordJson: text}, nil
}

func (s *recordsServer) Commands(_ context.Context, req *records.CommandsRequest) (*records.CommandsResponse, error) {
	commands, err := s.driver.Commands(req.GetTaskId())
	if err != nil || commands == nil {
		return answer(&records.CommandsResponse{}, err)
	}
	text, err := json.Marshal(commands)
	if err != nil {
		return nil, wire.Status(fmt.Errorf("encode commands: %w", err))
	}
	return &records.CommandsResponse{CommandsJson: text}, nil
}
