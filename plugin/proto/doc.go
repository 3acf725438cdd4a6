// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package proto holds the wire between a host and its task-driver plugins. Its
// subpackages are generated from the .proto files beside them; names and
// numbers are the hosts' and never change.
//
// testdata/wire.golden lists every one of them, for people and for the test
// that compares it, and that of the executor's wire, with the generated code.
package proto
