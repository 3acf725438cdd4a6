// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/testkit"
)

// openDriver opens the driver with the plugin blocks of a configuration file.
func openDriver(t *testing.T, text string) (*Driver, error) {
	t.Helper()
	c := config.Default()
	must(t, c.Merge("agent.hcl", []byte(text)))
	c.DataDir = t.TempDir()
	return OpenDriver(&Host{Log: hclog.NewNullLogger(), Config: func() config.Config { return c }}, nil)
}

func TestOwnDriverServesNumbers(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "metrics")
	r, err := openDriver(t, fmt.Sprintf("plugin \"tacho\" {\n config {\n metrics {\n address = %q\n }\n }\n}\n", "unix:"+socket))
	must(t, err)
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Errorf("nobody serves: %v", err)
	} else if err := conn.Close(); err != nil {
		t.Error(err)
	}
	must(t, r.Close())
}

// TestOwnDriverLeavesNothing holds that the directory of executors goes with the driver, unless there is something in it.
func TestOwnDriverLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, inside := range []bool{false, true} {
		d := testkit.Value(openDriver(t, ""))(t)
		must(t, os.MkdirAll(filepath.Join(d.runtimeDir, map[bool]string{true: "executor"}[inside]), 0o700))
		must(t, d.Close())
		_, err := os.Stat(d.runtimeDir)
		testkit.Equal(t, err == nil, inside, "%s is there", d.runtimeDir)
		_ = os.RemoveAll(d.runtimeDir)
	}
}

// TestOwnDriverRefuses is about configurations that are wrong, and where they stand.
func TestOwnDriverRefuses(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct{ driver, block, want string }{
		"another driver":    {driver: "taco", want: "unknown driver \"taco\"; known drivers: tacho"},
		"logs for the host": {block: "config {\n log_collection = \"host\"\n }", want: "the agent does not collect logs"},
		"a value":           {block: "config {\n log_collection = \"nobody\"\n }", want: `log_collection "nobody"`},
		"two values":        {block: "config {\n log_collection = \"x\"\n log_overflow = \"x\"\n }", want: ` "x": must be `},
		"a directory":       {block: "config {\n runtime_dir = \"/run/" + strings.Repeat("x", 40) + "\"\n }", want: "; at most 30"},
	} {
		name := cmp.Or(test.driver, driver.Name)
		r, err := openDriver(t, fmt.Sprintf("\n  plugin %q {\n %s\n}\n", name, test.block))
		if err == nil {
			t.Errorf("%s: accepted", what)
			testkit.NoError(t, r.Close())
			continue
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !strings.HasPrefix(line, fmt.Sprintf("agent.hcl:2,3: plugin %q: ", name)) || !strings.Contains(line, test.want) {
				t.Errorf("%s: %s", what, line)
			}
		}
	}
}

// No two agents have one directory, and none has that of `tacho run`: what an agent does not know in it is killed.
func TestRuntimeDir(t *testing.T) {
	long := "/var/lib/" + strings.Repeat("long/", 10)
	short, err := os.MkdirTemp("/tmp", "x")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	t.Setenv("XDG_RUNTIME_DIR", short)
	users := filepath.Join(short, "tacho")
	cases := []struct{ name, chosen, dataDir, want string }{
		{"short", "", "/var/lib/tacho", "/var/lib/tacho/run"},
		{"long", "", long, filepath.Join(users, "agent-bd0f1374")},
		{"chosen", "/run/x", "/var/lib/tacho", "/run/x/agent-b11f931c"},
		{"chosen by another", "/run/x", "/var/lib/other", "/run/x/agent-31000cb0"},
		{"chosen, the default", users, "/var/lib/tacho", filepath.Join(users, "agent-b11f931c")},
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
