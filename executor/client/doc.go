// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package client starts executors, finds them again after a restart of their caller, and kills what an executor
// left behind when it died. An executor is known by its process id together with its start time and the boot it
// belongs to; nothing is ever signalled on a bare number.
package client

import (
	"errors"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/wire"
)

var (
	// ErrLost says that the executor's process is gone.
	ErrLost = errors.New("the executor is gone")
	// ErrOtherBoot says that the machine was started anew since: neither executor nor task can be there.
	ErrOtherBoot = errors.New("the executor belongs to an earlier boot of this machine")
	// ErrOwned says that another live process owns the executor.
	ErrOwned = errors.New("the executor is owned by another process")
)

// Options say how an executor is started.
type Options struct {
	// Binary is the tacho executable; empty for the running one.
	Binary string
	// RuntimeDir holds one folder per executor, with its socket: a short path, see LongestRuntimeDir. See also
	// DefaultRuntimeDir.
	RuntimeDir string
	// ID names the task and its folder.
	ID string
	// Owner says whose task it is; zero for that of tacho run.
	Owner wire.Owner
	// ExtraFiles become the executor's descriptors 3, 4 and so on, for the task's standard streams and the leash.
	ExtraFiles []*os.File
	// KeepIgnored says that the task ignores the signals that this process was started with ignored, as below
	// nohup(1); otherwise it starts with every signal's default. Of SIGHUP, SIGINT and SIGQUIT: no others are kept.
	KeepIgnored bool
	// Samples says that the executor is to sample its task, so that it can prepare while it is being connected to.
	// Without it, it does so when the task is launched.
	Samples bool
	// Waits is where its end is waited for, and outlives the client; nil for a goroutine of the client's own.
	Waits *process.EpollSet
	// Logger gets what an executor wrote to its standard error, such as a panic; nil for nothing.
	Logger hclog.Logger
}

// LongestRuntimeDir returns how many bytes the path of a runtime folder may have for IDs of so many: the path of a
// socket has 107 at most, unix(7), and go-plugin names it after a number of up to ten digits.
func LongestRuntimeDir(id int) int { return 107 - len("/") - id - len("/plugin0123456789") }
