// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package rundir finds the runs that tacho run has recorded in a directory, by name and with their current state. It
// separates runs that are starting from incomplete ones, which were killed before they started the command.
package rundir
