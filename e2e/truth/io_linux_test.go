// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"math"
	"strings"
	"testing"

	"github.com/tachograph/tacho/procstats"
)

// storageIO holds bytes read and written against those that the workload asked for. What it did after the last
// sample may be missing from its own counters; what wait4(2) gave for it has all.
func storageIO(t *testing.T, r run) {
	read := headline(r.record, "io_read_bytes_total", procstats.Bytes)
	r.bytes(t, r.atLeast(read, "rusage_inblock_bytes_total"), *r.truth.IO.StorageRead)
	handed := headline(r.record, "io_write_handed_bytes_total", procstats.Bytes)
	r.bytes(t, r.atLeast(handed, "rusage_oublock_bytes_total"), *r.truth.IO.StorageWritten)
	r.bytes(t, headline(r.record, "io_write_bytes_total", procstats.Bytes), *r.truth.IO.StorageWritten)
	r.bytes(t, measurement(r.record, "tree_io_rchar_bytes_total"), *r.truth.IO.Read)
	r.bytes(t, measurement(r.record, "tree_io_wchar_bytes_total"), *r.truth.IO.Written)
}

// reapedIO checks that what a child read and wrote is counted once, before and after its parent reaped it. Both live
// for several samples after it, so nothing can be missing.
func reapedIO(t *testing.T, r run) {
	r.seen(t, measurement(r.record, "tree_io_rchar_bytes_total"), *r.truth.IO.Read)
	r.seen(t, measurement(r.record, "tree_io_wchar_bytes_total"), *r.truth.IO.Written)
	if stored := r.truth.IO.StorageWritten; stored != nil {
		r.seen(t, headline(r.record, "io_write_handed_bytes_total", procstats.Bytes), *stored)
	}
}

// atLeast marks a lower bound that is lower than another one in the same record.
func (r run) atLeast(l line, other string) line {
	if known := measurement(r.record, other); known.reported > l.reported+storageSlack {
		l.fault = "less than " + other + ", " + quantity(known.reported, procstats.Bytes)
	}
	return l
}

// bytes holds a number of bytes against the truth: near it, or less and labelled so.
func (r run) bytes(t *testing.T, l line, moved int64) {
	t.Helper()
	if math.IsNaN(l.reported) && r.mode.User.Name != "root" && strings.Contains(l.source, "ended before their io could be read") {
		// A zombie's /proc/PID/io belongs to root: without privilege nobody can know, and the record says so.
		l.true, l.bound = float64(moved), "said to be unknown"
		l.hold(t)
		return
	}
	if l.reported < float64(moved)-storageSlack && l.guarantee == procstats.LowerBound {
		l.true, l.bound = float64(moved), "labelled lower_bound"
		l.hold(t)
		return
	}
	r.seen(t, l, moved)
}

// seen holds a number of bytes against the truth.
func (r run) seen(t *testing.T, l line, moved int64) {
	t.Helper()
	l.true, l.bound = float64(moved), "2 MiB"
	switch {
	case math.IsNaN(l.reported):
		l.fault = "not measured: " + l.source
	case l.reported > l.true+storageSlack:
		l.fault = "more than there was"
	case l.reported < l.true-storageSlack:
		l.fault = "less than there was"
	}
	l.hold(t)
}
