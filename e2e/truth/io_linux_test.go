// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"math"
	"testing"

	"github.com/tachograph/tacho/procstats"
)

// storageIO holds bytes read and written against those that the workload asked for.
func storageIO(t *testing.T, r run) {
	r.bytes(t, headline(r.record, "io_read_bytes_total", procstats.Bytes), *r.truth.IO.StorageRead)
	r.bytes(t, headline(r.record, "io_write_bytes_total", procstats.Bytes), *r.truth.IO.StorageWritten)
	r.bytes(t, measurement(r.record, "tree_io_rchar_bytes_total"), *r.truth.IO.Read)
	r.bytes(t, measurement(r.record, "tree_io_wchar_bytes_total"), *r.truth.IO.Written)
}

// reapedIO checks that what a child read and wrote is counted once, before and after its parent reaped it.
func reapedIO(t *testing.T, r run) {
	if stored := r.truth.IO.StorageWritten; stored != nil {
		r.bytes(t, headline(r.record, "io_write_bytes_total", procstats.Bytes), *stored)
	}
	r.bytes(t, measurement(r.record, "tree_io_rchar_bytes_total"), *r.truth.IO.Read)
	r.bytes(t, measurement(r.record, "tree_io_wchar_bytes_total"), *r.truth.IO.Written)
}

// bytes holds a number of bytes against the truth: near it, or less and labelled so.
func (r run) bytes(t *testing.T, l line, moved int64) {
	t.Helper()
	l.true = float64(moved)
	l.bound = "2 MiB"
	switch {
	case math.IsNaN(l.reported):
		l.fault = "not measured"
	case l.reported > l.true+storageSlack:
		l.fault = "more than there was"
	case l.reported < l.true-storageSlack:
		l.bound = "labelled lower_bound"
		if l.guarantee != procstats.LowerBound {
			l.fault = "too little, and not labelled lower_bound"
		}
	}
	r.add(t, l)
}
