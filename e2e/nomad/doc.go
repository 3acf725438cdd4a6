// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package nomad runs our plugin in a real Nomad agent: every job of e2e/jobs, one behaviour each, and the faults
// that a cluster sees. Its tests need a nomad executable on the PATH, a built bin/tacho, and root.
package nomad
