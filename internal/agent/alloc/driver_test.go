// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/client"
)

// No two agents have one directory, and none has that of `tacho run`: what an agent does not know in it is killed.
func TestRuntimeDir(t *testing.T) {
	t.Parallel()
	long := "/var/lib/" + strings.Repeat("long/", 10)
	cases := []struct{ name, chosen, dataDir, want string }{
		{"short", "", "/var/lib/tacho", "/var/lib/tacho/run"},
		{"long", "", long, filepath.Join(client.DefaultRuntimeDir(), "agent-bd0f1374")},
		{"chosen", "/run/x", "/var/lib/tacho", "/run/x/agent-b11f931c"},
		{"chosen by another", "/run/x", "/var/lib/other", "/run/x/agent-31000cb0"},
		{"chosen, the default", client.DefaultRuntimeDir(), "/var/lib/tacho", filepath.Join(client.DefaultRuntimeDir(), "agent-b11f931c")},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got, err := runtimeDir(c.chosen, c.dataDir); got != c.want || err != nil {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
	chosen := "/run/" + strings.Repeat("x", 26)
	if dir, err := runtimeDir(chosen, "/var/lib/tacho"); err == nil || !strings.Contains(err.Error(), "has 31 bytes; at most 30") {
		t.Errorf("a directory without room for sockets in it: %s, %v", dir, err)
	}
}
