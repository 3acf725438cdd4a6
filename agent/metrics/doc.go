// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package metrics turns what an agent knows into metric families, and writes them for Prometheus, OpenMetrics and
// statsd.
//
// The names of a task's metrics follow from the table of measurements by one rule, see Name; docs/metrics.md lists
// them all. What was not measured has no sample.
//
// The page is written here and not by the customary client library. That one is linked for tests only, which hold
// the page to its linter and its parsers: with 500 tasks it needed 45 to 250 ms for a page, and its initialisation
// 0.5 ms and 200 KiB in every executor, which is the same binary.
package metrics
