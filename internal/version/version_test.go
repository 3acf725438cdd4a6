// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package version

import (
	"runtime/debug"
	"testing"
)

func TestFromBuild(t *testing.T) {
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	for _, test := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"go install", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "1.2.3"},
		{"no version control", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "0.0.0-dev"},
		{"a commit", debug.BuildInfo{Settings: []debug.BuildSetting{commit}}, "0.0.0-dev+0123456789ab"},
		{
			"a changed commit",
			debug.BuildInfo{Settings: []debug.BuildSetting{commit, {Key: "vcs.modified", Value: "true"}}},
			"0.0.0-dev+0123456789ab.dirty",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := fromBuild(&test.info); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
