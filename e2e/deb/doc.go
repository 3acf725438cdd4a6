// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package deb tests the Debian package with a real dpkg on a copy of this machine: what installing, upgrading, removing
// and purging does to tasks that are running. Its tests build the package with "make release".
package deb
