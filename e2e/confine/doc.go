// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package confine puts a program into the kinds of places that tacho has to work in: containers with read-only
// cgroups, namespaces, filters of system calls. It is for tests, and for Linux.
package confine
