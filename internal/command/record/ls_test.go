// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"testing"

	"github.com/tachograph/tacho/executor/record"
)

func TestListFilters(t *testing.T) {
	run := listedRun{State: record.Exited, Labels: map[string]string{"team": "db", "branch": "main"}}
	for _, test := range []struct {
		labels, states []string
		want           bool
	}{
		{nil, nil, true},
		{[]string{"team"}, nil, true},
		{[]string{"team=db", "branch=main"}, []string{"lost", "exited"}, true},
		{[]string{"team=db", "branch=next"}, nil, false},
		{[]string{"team="}, nil, false},
		{nil, []string{"running"}, false},
	} {
		o := &lsOptions{labels: test.labels, states: test.states}
		if got := o.wants(run); got != test.want {
			t.Errorf("%q %q: %v, want %v", test.labels, test.states, got, test.want)
		}
	}
}
