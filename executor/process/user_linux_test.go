// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"maps"
	"os"
	"os/user"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

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

// TestSetUser holds what becomes of the variables that say who a user is: unset, those of this process, those of a job.
func TestSetUser(t *testing.T) {
	root := testkit.Value(user.LookupId("0"))(t)
	daemon := testkit.Value(user.LookupId("1"))(t)
	of := func(u *user.User) map[string]string {
		return map[string]string{"HOME": u.HomeDir, "USER": u.Username, "LOGNAME": u.Username}
	}
	t.Setenv("HOME", "/of/the/host")
	t.Setenv("USER", "host")
	t.Setenv("LOGNAME", "host")
	host := map[string]string{"HOME": "/of/the/host", "USER": "host", "LOGNAME": "host"}
	for name, own := range map[string]map[string]string{
		"": nil, "0": of(root), root.Username: of(root), daemon.Username: of(daemon), "1": of(daemon), "1:0": of(daemon),
		daemon.Username + ":" + root.Username: of(daemon), "4294967294": {}, "no-such-user": {},
	} {
		for job, variables := range map[string]map[string]string{
			"nothing": {}, "home": {"HOME": "/of/the/job"}, "all": {"HOME": "", "USER": "me", "LOGNAME": "i"}, "other": {"SHELL": "/bin/x"},
		} {
			for given, base := range map[string]map[string]string{"unset": {}, "of the host": host} {
				env, want := maps.Clone(base), maps.Clone(base)
				if name != "" {
					want = maps.Clone(own)
				}
				maps.Copy(env, variables)
				maps.Copy(want, variables)
				SetUser(env, name)
				testkit.Diff(t, "user "+name+", variables "+given+", of the job "+job, want, env)
			}
		}
	}
	testkit.Must(t, os.Unsetenv("HOME"))
	env := map[string]string{"HOME": "/of/the/job"}
	SetUser(env, "1")
	testkit.Equal(t, env["HOME"], "/of/the/job", "HOME of a job under a host that has none")
}
