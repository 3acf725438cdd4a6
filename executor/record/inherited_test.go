// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"testing"

	"github.com/tachograph/tacho/procstats"
)

func TestInheritedPeak(t *testing.T) {
	sample := func(peak float64) *procstats.Sample {
		s := &procstats.Sample{}
		s.SetNumber(procstats.CgroupMemoryPeak, peak)
		return s
	}
	for _, test := range []struct {
		name          string
		before, after *procstats.Sample
		source        procstats.ID
		want          procstats.Guarantee
	}{
		{"rose in the run", sample(100), sample(200), procstats.CgroupMemoryPeak, procstats.Exact},
		{"stayed", sample(200), sample(200), procstats.CgroupMemoryPeak, procstats.UpperBound},
		{"not the kernel's", sample(200), sample(200), procstats.TreeRSS, procstats.Exact},
		{"not read before", nil, sample(200), procstats.CgroupMemoryPeak, procstats.Exact},
	} {
		headline := map[string]HeadlineValue{
			"memory_peak_bytes": {Value: new(200.0), Source: test.source.String(), Guarantee: procstats.Exact},
		}
		reason := InheritedPeak(headline, test.before, test.after)
		if got := headline["memory_peak_bytes"].Guarantee; got != test.want || (reason == "") != (test.want == procstats.Exact) {
			t.Errorf("%s: %s (%q), want %s", test.name, got, reason, test.want)
		}
	}
	if reason := InheritedPeak(map[string]HeadlineValue{}, sample(1), sample(1)); reason != "" {
		t.Errorf("no headline: %q", reason)
	}
}
