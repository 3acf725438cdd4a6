// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin is both ends of the wire between a host and its task-driver plugins.
//
// Serve makes this process a plugin that serves a driver. [Start] and [Reattach] are the host's side: a plugin
// executable of anybody's becomes a [driver.Driver]. [Host] keeps one alive: it is started again when it dies, and
// recovers its tasks.
//
//	first   PluginInfo, ConfigSchema           (Describe; the process may end here)
//	then    SetConfig, TaskConfigSchema, Capabilities, Fingerprint and TaskEvents (kept open)
//	for ever StartTask … DestroyTask
//	dies    calls fail with driver.ErrUnavailable; started again; RecoverTask for every task
//
// Conversions are in package wire below, the decoding of configurations in package config.
package plugin
