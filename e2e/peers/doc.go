// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package peers tries what other projects wrote against the built binary: Nomad's own driver tests, and the job files of
// its repository. Nothing of it is in this repository: NOMAD_SOURCE names a checkout of Nomad.
package peers
