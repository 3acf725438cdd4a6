// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"fmt"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestTree(t *testing.T) {
	type row struct{ pid, parent int }
	for _, test := range []struct {
		name string
		rows []row
		want string
	}{
		{"children after their parents", []row{{30, 10}, {10, 1}, {40, 30}, {20, 10}}, "0:10 1:20 1:30 2:40"},
		{"its own parent", []row{{50, 50}, {60, 50}}, "0:50 1:60"},
		{"each other's parents", []row{{1, 2}, {2, 1}, {3, 9}}, "0:3 0:2 1:1"},
		{"nothing", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			for _, b := range Tree(test.rows, func(r *row) (pid, parent int) { return r.pid, r.parent }) {
				if got != "" {
					got += " "
				}
				got += fmt.Sprintf("%d:%d", b.Depth, b.Process.pid)
			}
			testkit.Equal(t, got, test.want, "result")
		})
	}
}
