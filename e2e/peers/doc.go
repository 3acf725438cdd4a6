// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package peers tries what other projects wrote against the built binary: Nomad's own driver tests, the job files of its repository,
// beside a real Nomad too, and dashboards in a Prometheus server. Nothing of it is in this repository: NOMAD_SOURCE names a checkout
// of Nomad, TACHO_DASHBOARDS a folder of dashboards in JSON.
package peers
