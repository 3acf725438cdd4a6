// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package peers tries what other projects wrote against the built binary: Nomad's own driver tests, the job files of its repository,
// and dashboards in a Prometheus server; and it runs those job files, and jobs of its own, beside a real Nomad. Nothing of others is in
// this repository: NOMAD_SOURCE names a checkout of Nomad, TACHO_DASHBOARDS a folder of dashboards in JSON. "make peers" prints a table.
package peers
