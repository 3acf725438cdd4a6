// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tachograph/tacho/executor/wire"
)

// HandleVersion is the version of the driver state in the handles of our tasks. Fields are only added under one
// version.
const HandleVersion = 1

// driverState is what a handle keeps of a task for RecoverTask, as JSON. Fields are only added under one
// HandleVersion.
type driverState struct {
	// Address is how the executor is found again.
	Address   wire.Address `json:"address"`
	StartedAt time.Time    `json:"started_at"`
	// LogCollection is the choice that was in force at the start: the other files are somebody else's.
	LogCollection string `json:"log_collection"`
	// SamplingBudget is the share of one core that sampling the task may take; 0 for the driver's.
	SamplingBudget float64 `json:"sampling_budget,omitempty"`
	// Attributes are shown to people: limits as read back, cgroup, sources.
	Attributes map[string]string `json:"attributes,omitempty"`
}

func (s *driverState) encode() ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode driver state: %w", err)
	}
	return text, nil
}

// decodeState reads the state of a handle. Errors wrap ErrInvalid.
func decodeState(h *TaskHandle) (*driverState, error) {
	if h.Version != HandleVersion {
		return nil, invalid("handle of version %d, this driver reads %d", h.Version, HandleVersion)
	}
	var s driverState
	if err := json.Unmarshal(h.DriverState, &s); err != nil {
		return nil, invalid("read driver state: %w", err)
	}
	if s.Address.Folder == "" || s.Address.BootID == "" || s.Address.Executor.PID <= 0 {
		return nil, invalid("read driver state: it names no executor")
	}
	return &s, nil
}
