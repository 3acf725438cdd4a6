// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tachograph/tacho/procstats"
)

// Address is how a live executor is reached again, and how its task is found where the executor is gone. It is
// persisted in the executor's folder, for the first time before it answers, and in the handles of its callers.
type Address struct {
	// ID is the task's name.
	ID string `json:"id"`
	Owner
	// Folder is the executor's own, mode 0700: socket, log, address, lock.
	Folder string `json:"folder"`
	Socket string `json:"socket"`
	// Home is the executor's: where the processes are found.
	procstats.Home
	// Session is that of who started the executor, setsid(2); 0 if it is not known.
	Session  int                 `json:"session,omitempty"`
	Executor procstats.ProcessID `json:"executor"`
	// Main is the task's main process, also the leader of its session; zero before the start.
	Main procstats.ProcessID `json:"main"`
	// Cgroup is where the task is; Owned groups are removed with it.
	Cgroup procstats.Cgroup `json:"cgroup"`
	Owned  bool             `json:"owned,omitempty"`
	// RecordDir is where info.json is written; empty for none.
	RecordDir string `json:"record_dir,omitempty"`
	// Command is what runs there, for people.
	Command []string `json:"command,omitempty"`
}

const addressFile = "executor.json"

// Write puts the address into the executor's folder.
func (a *Address) Write() error {
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode address: %w", err)
	}
	path := filepath.Join(a.Folder, addressFile)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("write address: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write address: %w", err)
	}
	return nil
}

// ReadAddress returns the address in an executor's folder. One that names another folder is refused.
func ReadAddress(folder string) (*Address, error) {
	path := filepath.Join(folder, addressFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read address: %w", err)
	}
	var a Address
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("read address %s: %w", path, err)
	}
	if !same(a.Folder, folder) {
		return nil, fmt.Errorf("read address %s: it belongs to another directory, %q", path, a.Folder)
	}
	return &a, nil
}

// same reports whether two paths are of one folder: what an address names is removed with its task.
func same(a, b string) bool {
	if a == b {
		return true
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// The versions of executor/proto that this build speaks. Version 1 is the first; a later one adds and never
// changes, so that an old executor can be served by a new driver and the reverse.
const (
	ProtocolMin = 1
	ProtocolMax = 1
)

// Window is how many bytes of a stream each side accepts ahead of their reader, the least that HTTP/2 has.
const Window = 64 << 10

// KeepIgnored is the variable in an executor's environment by which its task is to ignore what its caller ignores.
const KeepIgnored = "TACHO_EXECUTOR_KEEP_IGNORED"

// Samples is the variable in an executor's environment that says that its task will be sampled by it.
const Samples = "TACHO_EXECUTOR_SAMPLES"

// TimerSlack is the variable in an executor's environment that has its caller's timer slack in nanoseconds: its task
// gets it, while the executor itself is started with more.
const TimerSlack = "TACHO_EXECUTOR_TIMER_SLACK"

// NotifyFile is a FIFO in an executor's directory. The executor writes a byte into it when an event happens and when
// the task has ended, so that its owner need not stay connected to a quiet task. One byte can stand for several
// changes. An executor of an older build has none.
const NotifyFile = "notify"

// ErrorPrefix begins what an executor that cannot start writes to its standard error.
const ErrorPrefix = "tacho executor: "

// The variables in an executor's environment that say whose task it is, see Owner.
const (
	envAllocID   = "TACHO_EXECUTOR_ALLOC_ID"
	envTask      = "TACHO_EXECUTOR_TASK"
	envPersisted = "TACHO_EXECUTOR_START_PERSISTED"
)

// Owner says whose task an executor is started for. The zero Owner is that of tacho run.
type Owner struct {
	// AllocID is the task's allocation and Task its name there.
	AllocID string `json:"alloc_id,omitempty"`
	Task    string `json:"task,omitempty"`
	// Persisted says that the caller has persisted the id before the start and comes back for the task: neither the
	// start nor the task ends with the caller.
	Persisted bool `json:"start_persisted,omitempty"`
}

// Environ returns the variables by which OwnerOf finds the owner.
func (o Owner) Environ() []string {
	if o == (Owner{}) {
		return nil
	}
	return []string{
		envAllocID + "=" + o.AllocID, envTask + "=" + o.Task, envPersisted + "=" + strconv.FormatBool(o.Persisted),
	}
}

// OwnerOf returns the owner that an environment names.
func OwnerOf(getenv func(string) string) Owner {
	persisted, _ := strconv.ParseBool(getenv(envPersisted)) // absent is false
	return Owner{AllocID: getenv(envAllocID), Task: getenv(envTask), Persisted: persisted}
}
