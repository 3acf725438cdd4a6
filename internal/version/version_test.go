// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package version

import (
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestChoose(t *testing.T) {
	for _, test := range []struct{ name, stamped, module, want string }{
		{"stamped", "v1.2.3", "v0.0.1", "1.2.3"},
		{"go install", "", "v1.2.3", "1.2.3"},
		{"no version control", "", "(devel)", "0.0.0-dev"},
		{"no build information", "", "", "0.0.0-dev"},
		{"a changed commit", "", "v0.0.0-20260102030405-0123456789ab+dirty", "0.0.0-20260102030405-0123456789ab+dirty"},
	} {
		testkit.Equal(t, choose(test.stamped, test.module), test.want, "%s", test.name)
	}
}
