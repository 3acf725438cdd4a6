// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package lifecycle holds tacho run to what it promises from the first word of its command line to the last
// process: black-box tests of the binary, as TACHO_E2E or TACHO_BIN asks for them (see e2e/rig).
package lifecycle
