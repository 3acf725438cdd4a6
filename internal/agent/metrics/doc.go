// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package metrics turns what an agent knows into metric families, for its page and for statsd.
//
// The names of a task's metrics follow from the table of measurements by one rule, see exposition.Name;
// docs/metrics.md lists them all. What was not measured has no sample.
package metrics
