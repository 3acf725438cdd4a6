// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import "time"

// Event is something worth telling a user about a task.
type Event struct {
	TaskID, AllocID, TaskName string
	Timestamp                 time.Time
	// Message is one sentence.
	Message string
	// Annotations are the details, by name.
	Annotations map[string]string
}

// Health says whether a driver can run tasks.
type Health int32

// The hosts' numbers.
const (
	// Undetected drivers are not there at all.
	Undetected Health = 0
	Unhealthy  Health = 1
	Healthy    Health = 2
)

// Fingerprint is a driver's state on its node.
type Fingerprint struct {
	// Attributes can be used in constraints of jobs. Values are string, bool, int64 or float64.
	Attributes map[string]Attribute
	Health     Health
	// Description says why, in a sentence.
	Description string
	// Err is set where fingerprinting itself failed. Over a wire only its text arrives.
	Err error
}

// Attribute is a value with an optional unit.
type Attribute struct {
	// Value is a string, bool, int64 or float64.
	Value any
	Unit  string
}

// Capabilities says what a driver can do, for the host's decisions.
type Capabilities struct {
	SendSignals, Exec bool
	FSIsolation       FSIsolation
	NetworkModes      []NetworkMode
	// MustCreateNetwork drivers make the network namespaces of their groups themselves.
	MustCreateNetwork bool
	// NoMounts drivers refuse mounts.
	NoMounts bool
	// DisableLogCollection drivers write the task's log files themselves.
	DisableLogCollection bool
	DynamicWorkloadUsers bool
}

// FSIsolation says what of the host's file system a task sees.
type FSIsolation int32

// The hosts' numbers.
const (
	FSNone   FSIsolation = 0
	FSChroot FSIsolation = 1
	FSImage  FSIsolation = 2
	FSUnveil FSIsolation = 3
)
