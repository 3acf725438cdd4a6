// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import "testing"

// TestUnknownUsers holds that the error for a user or group that does not exist has its name once.
func TestUnknownUsers(t *testing.T) {
	for name, want := range map[string]string{
		"no-such-user":         "unknown user no-such-user",
		"no-such-user:root":    "unknown user no-such-user",
		"root:no-such-group":   "unknown group no-such-group",
		"no such\nuser":        `unknown user "no such\nuser"`,
		":root":                `unknown user ""`,
		"4294967294":           "",
		"4294967294:432109876": "",
	} {
		if _, err := LookupUser(name); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
