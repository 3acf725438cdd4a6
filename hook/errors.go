// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import "errors"

var (
	// ErrStatsNotImplemented is returned by a [StatsOpener] or [StatsStream] whose driver has no stats.
	ErrStatsNotImplemented = errors.New("stats not implemented")
	// ErrPluginRestarting is returned while the plugin behind a task is started again. It is tried again and not
	// worth an error in the log.
	ErrPluginRestarting = errors.New("plugin is restarting")
	// ErrNotRunning says that there is no running task to act upon.
	ErrNotRunning = errors.New("task is not running")
	// ErrNotPublished says that no stats are collected because publishing is off.
	ErrNotPublished = errors.New("publishing is off")
	// ErrStatsOpening says that the stats stream has not sent its first sample yet.
	ErrStatsOpening = errors.New("stats stream is being opened")
	// ErrStatsStalled says that a stats stream was given up because it fell silent.
	ErrStatsStalled = errors.New("stats stream is silent")
)

// Recoverable is implemented by errors that know whether trying again can help. Two defaults apply to errors that do
// not say: stats streams and waits are tried again, a start is not.
type Recoverable interface {
	error
	Recoverable() bool
}

// recoverable returns what the error says of itself, or otherwise where it says nothing.
func recoverable(err error, otherwise bool) bool {
	if r, ok := errors.AsType[Recoverable](err); ok {
		return r.Recoverable()
	}
	return otherwise
}

func isRestarting(err error) bool { return errors.Is(err, ErrPluginRestarting) }
