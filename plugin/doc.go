// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin makes this process a task-driver plugin: it serves our driver to the host that started it, over the
// wire of Nomad's plugins.
//
//	first    PluginInfo, ConfigSchema          (the host may end the process here)
//	then     SetConfig, TaskConfigSchema, Capabilities, Fingerprint and TaskEvents (kept open)
//	for ever StartTask … DestroyTask
//
// The other side of the wire, for the drivers of others, is package host below. Conversions are in package wire, the
// decoding of configurations in package config.
package plugin
