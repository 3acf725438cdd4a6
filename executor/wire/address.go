// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

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

// FindSocket returns the socket in an executor's folder, as go-plugin named it; empty if there is none.
func FindSocket(folder string) string {
	sockets, err := filepath.Glob(filepath.Join(folder, "plugin*"))
	if err != nil || len(sockets) == 0 {
		return ""
	}
	return sockets[0]
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
