// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestLoadMergesFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("a.hcl", "name = \"one\"\ntelemetry {\n  collection_interval = \"5s\"\n  publish_allocation_metrics = true\n}\n"+
		"plugin \"x\" {\n  config {\n    a = 1\n  }\n}\nclient {\n meta = { a = \"1\" }\n}\n")
	write("b.hcl", "name = \"two\"\nports {\n  http = 1234\n}\n")
	write(".b.hcl.swp.hcl", "broken {")
	write("README", "broken {")
	c := testkit.Value(Load(dir))(t)
	if c.Name != "two" || c.Ports.HTTP != 1234 || !c.Telemetry.PublishAllocationMetrics || c.Plugins["x"].Body == nil {
		t.Errorf("loaded %+v", c)
	}
	if c.Telemetry.CollectionInterval != 5*time.Second || c.History.Interval != 5*time.Second {
		t.Errorf("intervals %s, %s", c.Telemetry.CollectionInterval, c.History.Interval)
	}
	if len(c.Files) != 2 {
		t.Errorf("files %v", c.Files)
	}
}

func TestCheckRefusesTheAbsurd(t *testing.T) {
	tests := map[string]struct {
		change func(*Config)
		want   string
	}{
		"default":            {func(*Config) {}, ""},
		"relative directory": {func(c *Config) { c.DataDir = "data" }, "absolute"},
		"history":            {func(c *Config) { c.History.Span = 1000 * time.Hour }, "more than 86400 readings"},
		"short history":      {func(c *Config) { c.History.Span = time.Millisecond }, "history.span 1ms is shorter than history.interval 1s"},
		"interval":           {func(c *Config) { c.Telemetry.CollectionInterval = 0 }, "collection_interval"},
		"port":               {func(c *Config) { c.Ports.HTTP = 1 << 20 }, "not a port"},
		"detail":             {func(c *Config) { c.Telemetry.AllocationDetail = "all" }, "none, job, task, alloc"},
		"tls":                {func(c *Config) { c.TLS.CertFile = "/x" }, "key_file"},
		"all addresses":      {func(c *Config) { c.BindAddr = "0.0.0.0" }, "reachable from the network"},
		"every address":      {func(c *Config) { c.BindAddr = "" }, "reachable from the network"},
		"a name":             {func(c *Config) { c.BindAddr = "example.com" }, `"example.com" is not an IP address or localhost, and may be reachable from the network`},
		"a name with tls":    {func(c *Config) { c.BindAddr, c.TLS = "example.com", TLS{CertFile: "/c", KeyFile: "/k"} }, ""},
		"nonsense":           {func(c *Config) { c.BindAddr = "nonsense!" }, `bind_addr "nonsense!" is not an IP address or localhost`},
		"half an address":    {func(c *Config) { c.BindAddr, c.TLS = "192.0.2", TLS{CertFile: "/c", KeyFile: "/k"} }, "not an IP address"},
		"loopback":           {func(c *Config) { c.BindAddr = "::1" }, ""},
		"localhost":          {func(c *Config) { c.BindAddr = "localhost" }, ""},
		"open with tls":      {func(c *Config) { c.BindAddr, c.TLS = "0.0.0.0", TLS{CertFile: "/c", KeyFile: "/k"} }, ""},
		"socket only":        {func(c *Config) { c.BindAddr, c.Ports.HTTP = "", -1 }, ""},
		"prefix":             {func(c *Config) { c.Telemetry.PrefixFilter = []string{"+a", "b"} }, `"b"`},
		"ca without use":     {func(c *Config) { c.TLS = TLS{CertFile: "/c", KeyFile: "/k", CAFile: "/a"} }, "verify_https_client, which is off"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := Default()
			tt.change(&c)
			err := c.Check()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

// TestNoFiles holds that a directory without files is no configuration.
func TestNoFiles(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "agent.conf"), nil, 0o600))
	if _, err := Load(dir); err == nil || err.Error() != "read configuration: "+dir+": no *.hcl files" {
		t.Errorf("error %v", err)
	}
}

// TestTokenOfOthers holds that the error about a file that others can read says what to do.
func TestTokenOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	testkit.Must(t, os.WriteFile(path, []byte("x"), 0o644))
	c := Default()
	c.ACL.TokenFile = path
	if _, err := c.Token(); err == nil || !strings.Contains(err.Error(), "has mode 0644, so that others can read it; chmod 600 "+path) {
		t.Errorf("error %v", err)
	}
}

// TestCheckSaysWhere holds that what no agent can run with is told with its place, in whichever file it stands; that an
// interval that no file sets is not reported beside the one that it follows; and that of two values that do not fit both
// are named.
func TestCheckSaysWhere(t *testing.T) {
	for _, tt := range []struct{ before, text, want string }{
		{"", "data_dir = \"data\"", `b.hcl:1,12-18: Invalid value; data_dir must be an absolute path, not "data"`},
		{"", "telemetry {\n  allocation_detail = \"all\"\n}", `b.hcl:2,23-28: Invalid value; telemetry.allocation_detail must be one of none, job, task, alloc, not "all"`},
		{"history {\n  span = \"1m\"\n}", "history {\n  interval = \"2m\"\n}", "a.hcl:2,10-14: Invalid value; history.span 1m is shorter than history.interval 2m"},
		{"", "tls {\n  key_file = \"/k\"\n}", "b.hcl:2,14-18: Invalid value; tls.key_file requires both cert_file and key_file"},
		{"", "telemetry {\n  collection_interval = \"1ms\"\n}", "b.hcl:2,25-30: Invalid value; telemetry.collection_interval 1ms is less than 100ms"},
		{"", "watch {\n  every = \"1ms\"\n}", "b.hcl:2,11-16: Invalid value; watch.every 1ms is less than 100ms"},
		{"", "watch {\n  cgroups = [\"a/*\", \"/\"]\n}", `b.hcl:2,13-25: Invalid value; watch.cgroups has "/", which is not the path of cgroups such as system.slice/*.service`},
		{"", "watch {\n  cgroups = [\"a/[\"]\n}", `b.hcl:2,13-20: Invalid value; watch.cgroups has "a/[", which is not the path of cgroups such as system.slice/*.service`},
		{"", "watch {\n  cgroups = [\"a/../*\"]\n}", `b.hcl:2,13-23: Invalid value; watch.cgroups has "a/../*", which is not the path of cgroups such as system.slice/*.service`},
		{"", "history {\n  interval = \"1ms\"\n}", "b.hcl:2,14-19: Invalid value; history.interval 1ms is less than 100ms"},
		{"", "history {\n  interval = \"1h\"\n}", "b.hcl:2,14-18: Invalid value; history.interval 1h is longer than history.span 15m"},
		{"", "telemetry {\n  collection_interval = \"1h\"\n}", "b.hcl:2,25-29: Invalid value; telemetry.collection_interval 1h is longer than history.span 15m"},
		{"history {\n  span = \"2s\"\n}", "telemetry {\n  collection_interval = \"1ms\"\n}", "b.hcl:2,25-30: Invalid value; telemetry.collection_interval 1ms is less than 100ms"},
	} {
		c := Default()
		testkit.Must(t, c.Merge("a.hcl", []byte(tt.before)))
		testkit.Must(t, c.Merge("b.hcl", []byte(tt.text)))
		if err := c.Check(); err == nil || err.Error() != tt.want {
			t.Errorf("%s: error\n%v, want\n%s", tt.text, err, tt.want)
		}
	}
}

// TestMergeDecodes holds that every kind of key is decoded over what there was, and that what is wrong is named with
// its place.
func TestMergeDecodes(t *testing.T) {
	c := Default()
	for _, text := range []string{
		"name = \"n\"\nclient {\n  meta = { a = \"1\" }\n  gc_max_allocs = 7\n}\nplugin \"x\" {\n  config {\n    any = 1\n  }\n}\nplugin \"y\" {}",
		"telemetry {\n  collection_interval = \"3s\"\n  prefix_filter = [\"+a\"]\n  disable_hostname = \"true\"\n}\nports {\n  http = \"4700\"\n}\nclient {\n  meta = { b = 2 }\n}",
	} {
		testkit.Must(t, c.Merge("a.hcl", []byte(text)))
	}
	if c.Name != "n" || c.Client.GCMaxAllocs != 7 || c.Client.Meta["a"] != "1" || c.Client.Meta["b"] != "2" || c.Ports.HTTP != 4700 ||
		c.Telemetry.CollectionInterval != 3*time.Second || !c.Telemetry.DisableHostname || len(c.Telemetry.PrefixFilter) != 1 {
		t.Errorf("decoded %+v", c)
	}
	if x := c.Plugins["x"]; len(c.Plugins) != 2 || x == nil || x.Body == nil || x.Range.Filename != "a.hcl" || c.Plugins["y"].Body.MissingItemRange().Filename != "a.hcl" {
		t.Errorf("plugins %+v", c.Plugins)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"bool":         {"telemetry {\n publish_allocation_metrics = \"often\"\n}", "a.hcl:2,31-38: Invalid value; publish_allocation_metrics: a bool is required"},
		"duration":     {"history {\n span = \"long\"\n}", `a.hcl:2,9-15: Invalid value; span must be a duration such as "10s" or "1h30m"`},
		"syntax":       {"x = ", "a.hcl:1"},
		"of Nomad":     {"plugin_dir = \"/opt\"", "a.hcl:1,14-20: Invalid value; plugin_dir is an option of Nomad clients"},
		"key":          {"names = \"n\"", `a.hcl:1,1-6: Unknown attribute; unknown attribute "names" in the configuration; did you mean "name"?`},
		"key in block": {"ports {\n  https = 1\n}", `a.hcl:2,3-8: Unknown attribute; unknown attribute "https" in ports; did you mean "http"?`},
		"block":        {"server {}", "a.hcl:1,1-7: Unknown block"},
		"twice":        {"ports {}\nports {}", "a.hcl:2,1-6: Duplicate block; ports is allowed once in the configuration; already set at line 1"},
		"type":         {"ports {\n  http = []\n}", "a.hcl:2,10-12: Invalid value; http: number required"},
		"fraction":     {"ports {\n  http = 1.5\n}", "a.hcl:2,10-13: Invalid value; http must be a whole number"},
		"element":      {"telemetry {\n  prefix_filter = [{}]\n}", "a.hcl:2,19-23: Invalid value"},
		"label":        {"plugin {}", `a.hcl:1,1-7: Invalid labels; plugin requires one name: plugin "NAME" { … }`},
		"labels":       {"plugin \"a\" \"b\" {}", `a.hcl:1,1-7: Invalid labels; plugin requires one name`},
		"variable":     {"name = x", `a.hcl:1,8-9: Invalid value; x is not a value: a bool is true or false, a text is in quotes: "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			c := Default()
			if err := c.Merge("a.hcl", []byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}
