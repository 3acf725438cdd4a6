// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package summary lays out the record of a run as text: the short summary that tacho run ends with, and the page of
// tacho show, with their parts.
package summary
