// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package rundir finds recorded runs in the folder that tacho run writes them to: by name, with their state as it is
// now. It tells runs that are about to begin from incomplete ones, which never did.
package rundir
