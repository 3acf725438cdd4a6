// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tachograph/tacho/executor/wire"
)

// TaskConfig is a task as a host wants it started.
type TaskConfig struct {
	// ID names this run of the task; the host makes it up and never uses it again.
	ID string
	// Name is the task's name within its group.
	Name string
	// AllocID, JobID and the following say where the task belongs.
	AllocID, JobID, JobName, TaskGroupName, Namespace, NodeName string
	// DriverConfig is the task's config block as MessagePack, shaped by the driver's schema: from a host behind a wire.
	DriverConfig []byte
	// Block is the same for our driver, from a host in this process. It goes before DriverConfig, and is not persisted:
	// a running task is recovered without it.
	Block *ConfigBlock `json:"-"`
	// Persisted says that the host has persisted this configuration, and calls AdoptTask with it if it dies before it
	// has persisted the handle: from a host in this process.
	Persisted bool `json:"-"`
	// Sampled says that the host opens a stream of stats once the task is started, so that what it counts is counted
	// from the first process on: from a host in this process.
	Sampled bool `json:"-"`
	Env     map[string]string
	// DeviceEnv is added to Env and wins.
	DeviceEnv map[string]string
	Resources *Resources
	Mounts    []Mount
	// User to run as; empty for the driver's default.
	User string
	// AllocDir is the allocation's directory; the task's own is AllocDir/Name.
	AllocDir string
	// StdoutPath and StderrPath are FIFOs of the host's log collector, /dev/null where logs are switched off.
	StdoutPath, StderrPath string
	// Network is the namespace to join; nil for the host's.
	Network *NetworkIsolation
}

// Resources is what a task was promised.
type Resources struct {
	// Linux is nil on other systems.
	Linux *LinuxResources
}

// LinuxResources are limits in the kernel's terms.
type LinuxResources struct {
	// CPUPeriod and CPUQuota are microseconds, 0 for no quota; CPUShares are those of cgroup v1.
	CPUPeriod, CPUQuota, CPUShares int64
	// MemoryLimitBytes is the hard limit, 0 for none.
	MemoryLimitBytes int64
	// CpusetCPUs is a list such as 0-3,7.
	CpusetCPUs string
	// CpusetCgroup is the cgroup that the host made for the task: the task's own on v2, of the cpuset
	// controller alone on v1.
	CpusetCgroup string
}

// Mount is a directory of the host that the task shall see.
type Mount struct {
	TaskPath string
}

// NetworkMode says whose network namespace a task is in.
type NetworkMode int32

// The hosts' numbers.
const (
	NetworkHost  NetworkMode = 0
	NetworkGroup NetworkMode = 1
)

// NetworkIsolation is a network namespace.
type NetworkIsolation struct {
	Mode NetworkMode
	// Path is the namespace's file, such as /var/run/netns/x.
	Path string
}

// TaskState is where a task is in its life.
type TaskState int32

// The hosts' numbers.
const (
	TaskRunning TaskState = 1
	TaskExited  TaskState = 2
)

// TaskHandle is what a host keeps of a started task, to give it back to RecoverTask.
type TaskHandle struct {
	// Version is the driver's, of State.
	Version int
	Config  *TaskConfig
	State   TaskState
	// DriverState is the driver's own affair.
	DriverState []byte
}

// ExitResult is how a task ended.
type ExitResult struct {
	// Code is the main process's exit code, 128 + Signal where a signal ended it.
	Code, Signal int
	// OOMKilled tasks went over their own memory limit.
	OOMKilled bool
	// Retryable is why another start may end better although the task failed: memory ran out that is not the task's
	// own. It is empty if the task is at fault, or if the driver does not know.
	Retryable string
	// Err says why the exit is not known, or what was wrong beside it; nil otherwise. Over a wire only its
	// text arrives.
	Err error
}

// Successful reports whether the task ended as it should.
func (r *ExitResult) Successful() bool { return r.Code == 0 && r.Signal == 0 && r.Err == nil }

// TaskStatus is what a driver knows of a task.
type TaskStatus struct {
	ID, Name string
	State    TaskState
	// StartedAt and CompletedAt are zero where the moment has not come, or is not known.
	StartedAt, CompletedAt time.Time
	// Exit is nil while the task runs.
	Exit *ExitResult
	// Attributes are the driver's, for people.
	Attributes map[string]string
}

// HandleVersion is the version of the driver state in the handles of our tasks. Fields are only added under one
// version.
const HandleVersion = 1

// driverState is what a handle keeps of a task for RecoverTask, as JSON. Fields are only added under one
// HandleVersion.
type driverState struct {
	// Address is how the executor is found again.
	Address   wire.Address `json:"address"`
	StartedAt time.Time    `json:"started_at"`
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
