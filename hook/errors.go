// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"strings"
)

var (
	// ErrStatsNotImplemented is returned by a [StatsOpener] or [StatsStream] whose driver has no stats.
	ErrStatsNotImplemented = errors.New("stats not implemented")
	// ErrPluginRestarting is returned while the plugin behind a task is started again. The call is retried, and the
	// log has it at debug level only.
	ErrPluginRestarting = errors.New("plugin is restarting")
	// ErrNotRunning says that there is no running task.
	ErrNotRunning = errors.New("task is not running")
	// ErrNotPublished says that no stats are collected because publishing is off.
	ErrNotPublished = errors.New("publishing is off")
	// ErrStatsOpening says that the stats stream has not sent its first sample yet.
	ErrStatsOpening = errors.New("stats stream is being opened")
	// ErrStatsStalled says that a stats stream was ended because it fell silent.
	ErrStatsStalled = errors.New("stats stream is silent")
	// ErrUpdaterBlocked says that the updater does not return from the last sample.
	ErrUpdaterBlocked = errors.New("stats updater is blocked")
	// ErrStatsAborted says that the driver or the updater ended the goroutine that called it, by runtime.Goexit.
	ErrStatsAborted = errors.New("stats collection was aborted")
)

// Recoverable is implemented by errors that say whether a retry can help. For errors that do not say, stats streams and
// waits are retried and a start is not.
type Recoverable interface {
	error
	Recoverable() bool
}

// recoverable returns what the error says of itself, or otherwise if it says nothing.
func recoverable(err error, otherwise bool) bool {
	if r, ok := errors.AsType[Recoverable](err); ok {
		return r.Recoverable()
	}
	return otherwise
}

// pluginShutDown is how Nomad and its plugins say that a plugin is down. Often nothing but the text arrives.
const pluginShutDown = "plugin is shut down"

// isRestarting reports whether an error is the ordinary restart of a plugin.
func isRestarting(err error) bool {
	return errors.Is(err, ErrPluginRestarting) || err != nil && strings.Contains(err.Error(), pluginShutDown)
}
