// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package where runs tacho in the kinds of places in which it has to work: read-only cgroups, namespaces, hidden
// processes, filters of system calls, users with and without cgroups of their own. In each the command runs, and what
// is lost there is said.
package where
