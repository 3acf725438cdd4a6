// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"testing"

	"github.com/tachograph/tacho/procstats"
)

// TestNetworkHeadlines holds what counts of packets say of the packets that there were.
func TestNetworkHeadlines(t *testing.T) {
	received := func(n float64) procstats.Reading { return number(procstats.SkbReceived, n) }
	tests := []struct {
		name    string
		sample  *procstats.Sample
		history procstats.History
		want    string
	}{
		{"some", sampleAt(at(2), received(100)), procstats.History{}, "100 lower_bound skb_received_bytes_total"},
		{"none since the start", sampleAt(at(2), received(0)), procstats.History{Ended: true}, "0 exact skb_received_bytes_total"},
		{
			"none since it was watched, while it goes on", sampleAt(at(2), received(0), number(procstats.SkbStartTime, 1)),
			procstats.History{},
			"0 lower_bound skb_received_bytes_total",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, h := range procstats.Headlines(test.sample, test.history) {
				if h.ID == procstats.HeadlineNetworkReceived && headline(h) != test.want {
					t.Errorf("got %s, want %s", headline(h), test.want)
				}
			}
		})
	}
	for _, h := range procstats.Headlines(sampleAt(at(2), received(0), number(procstats.SkbStartTime, 1)), procstats.History{Ended: true}) {
		if h.ID == procstats.HeadlineNetworkReceived && h.Reading.Present() {
			t.Errorf("none since it was watched, at the end: got %s, want no number", headline(h))
		}
	}
}
