// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package api serves what an agent knows and does over HTTP: Nomad's paths and JSON keys, so that its command line
// and other clients read them, and beside them what Nomad has no place for, always in an object or a path of its own.
//
//	request ─► Host header ─► token ─► size and time ─► path ─► agent ─► JSON, without what the caller may not see
//
// Without a token, TCP has numbers, names and states: no logs, job files, command lines, environments or messages,
// and nothing is started or stopped. The unix socket and whoever has the token are trusted with everything.
package api
