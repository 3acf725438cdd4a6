// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package exposition writes metric families for Prometheus, OpenMetrics and in the JSON of Nomad's /v1/metrics, and
// says what a measurement is called there. The agent's page and the driver's own endpoint are written by it.
//
// Pages are written here and not by the customary client library. That one is linked for tests only, which hold
// them to its linter and its parsers: with 500 tasks it needed 45 to 250 ms for a page, and its initialisation
// 0.5 ms and 200 KiB in every executor, which is the same binary.
package exposition
