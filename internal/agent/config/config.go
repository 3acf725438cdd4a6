// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package config reads the agent's configuration: HCL files with the stanza names that Nomad's users know.
package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/regular"
)

// Config is the agent's whole configuration. Files are decoded into its blocks, whose durations they write as text.
type Config struct {
	// Name is the node's; empty for the host name.
	Name       string `hcl:"name,optional"`
	Datacenter string `hcl:"datacenter,optional"`
	Region     string `hcl:"region,optional"`
	// DataDir holds state, allocations and sockets.
	DataDir  string `hcl:"data_dir,optional"`
	BindAddr string `hcl:"bind_addr,optional"`
	Ports    Ports  `hcl:"ports,block"`
	// LogLevel is trace, debug, info, warn or error.
	LogLevel string `hcl:"log_level,optional"`
	// Plugins are the operator's configurations of drivers, by name.
	Plugins   map[string]*Plugin `hcl:"plugin,labelled"`
	Telemetry Telemetry          `hcl:"telemetry,block"`
	History   History            `hcl:"history,block"`
	Client    Client             `hcl:"client,block"`
	Watch     Watch              `hcl:"watch,block"`
	ACL       ACL                `hcl:"acl,block"`
	TLS       TLS                `hcl:"tls,block"`
	// Dev persists nothing: the data directory is removed at the end, and tasks are stopped.
	Dev bool
	// Files are what it was read from.
	Files []string

	// places are for what Check finds.
	places job.Places
}

// Ports are TCP ports.
type Ports struct {
	// HTTP is 4656 if not set; -1 listens on the unix socket only.
	HTTP int `hcl:"http,optional"`
}

// Plugin is a plugin block.
type Plugin struct {
	Name string
	// Body is its config block, or an empty body.
	Body hcl.Body `hcl:"config,body"`
	// Text is the whole block as it stands in its file.
	Text string
	// Range is where it stands.
	Range hcl.Range
}

// Telemetry says what is measured and published. Names and defaults are Nomad's if it has them.
type Telemetry struct {
	CollectionInterval time.Duration `hcl:"collection_interval,optional"`
	// PublishAllocationMetrics collects what tasks use; without it no task is read at all.
	PublishAllocationMetrics bool `hcl:"publish_allocation_metrics,optional"`
	PublishNodeMetrics       bool `hcl:"publish_node_metrics,optional"`
	PrometheusMetrics        bool `hcl:"prometheus_metrics,optional"`
	DisableHostname          bool `hcl:"disable_hostname,optional"`
	UseNodeName              bool `hcl:"use_node_name,optional"`
	// PrefixFilter are prefixes of metric names, + lets in and - keeps out; FilterDefault is for all others.
	PrefixFilter  []string `hcl:"prefix_filter,optional"`
	FilterDefault bool     `hcl:"filter_default,optional"`
	// AllocationDetail is one of none, job, task and alloc.
	AllocationDetail string `hcl:"allocation_detail,optional"`
	// NomadNames adds the metric names that dashboards and autoscalers for Nomad read.
	NomadNames                   bool     `hcl:"nomad_names,optional"`
	IncludeAllocMetadata         bool     `hcl:"include_alloc_metadata_in_metrics,optional"`
	AllowedMetadataKeysInMetrics []string `hcl:"allowed_metadata_keys_in_metrics,optional"`
}

// History bounds what is kept of a task's past.
type History struct {
	Span     time.Duration `hcl:"span,optional"`
	Interval time.Duration `hcl:"interval,optional"`
}

// Points is how many readings are kept of a task.
func (h History) Points() int { return int((h.Span + h.Interval - 1) / h.Interval) }

// Client says when ended allocations are removed, and how tasks are restarted.
type Client struct {
	// GCAge is how long an ended allocation is kept at least, unless there are more than GCMaxAllocs of them.
	GCAge       time.Duration `hcl:"gc_age,optional"`
	GCInterval  time.Duration `hcl:"gc_interval,optional"`
	GCMaxAllocs int           `hcl:"gc_max_allocs,optional"`
	// RetryHostOOM restarts tasks that were killed because memory other than their own ran out, without counting an
	// attempt of their restart policy.
	RetryHostOOM bool              `hcl:"retry_host_oom,optional"`
	Meta         map[string]string `hcl:"meta,optional"`
}

// Watch says which cgroups are read that something else has made. It needs publish_allocation_metrics.
type Watch struct {
	// Cgroups are patterns of paths, level by level as in path.Match.
	Cgroups []string      `hcl:"cgroups,optional"`
	Every   time.Duration `hcl:"every,optional"`
}

// ACL says who may do more than read numbers over TCP.
type ACL struct {
	// TokenFile holds the token; empty for none.
	TokenFile string `hcl:"token_file,optional"`
}

// TLS are files in PEM form; empty for none.
type TLS struct {
	CertFile string `hcl:"cert_file,optional"`
	KeyFile  string `hcl:"key_file,optional"`
	CAFile   string `hcl:"ca_file,optional"`
	// VerifyClient asks clients for a certificate of CAFile.
	VerifyClient bool `hcl:"verify_https_client,optional"`
}

// DefaultPort is the default of ports.http.
const DefaultPort = 4656

// Default returns the configuration without files.
func Default() Config {
	return Config{
		Datacenter: "dc1", Region: "global", DataDir: datadir.Default, BindAddr: "127.0.0.1", Ports: Ports{HTTP: DefaultPort},
		LogLevel: "info", Plugins: map[string]*Plugin{},
		Telemetry: Telemetry{CollectionInterval: time.Second, FilterDefault: true, AllocationDetail: "alloc"},
		History:   History{Span: 15 * time.Minute, Interval: time.Second},
		Client:    Client{GCAge: 24 * time.Hour, GCInterval: time.Minute, GCMaxAllocs: 500, RetryHostOOM: true},
		Watch:     Watch{Every: time.Second},
	}
}

// maxFile bounds one file in bytes.
const maxFile = 1 << 20

// Load reads files, and the *.hcl files of directories by name, each over the one before. What no file sets is as in
// Default. Errors have file, line and column.
func Load(paths ...string) (Config, error) {
	c := Default()
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return c, err
		}
		for _, file := range files {
			if err := c.merge(file); err != nil {
				return c, err
			}
			c.Files = append(c.Files, file)
		}
	}
	return c, c.Check()
}

// filesOf returns a file itself, or the files of a directory. A directory without files is an error, because a
// misspelled path must not start an agent with the defaults.
func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	var files []string
	for _, entry := range entries {
		// Editors leave hidden files beside those they edit.
		if name := entry.Name(); !entry.IsDir() && strings.HasSuffix(name, ".hcl") && !strings.HasPrefix(name, ".") {
			files = append(files, filepath.Join(path, name))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("read configuration: %s: no *.hcl files", path)
	}
	return files, nil
}

// merge lays one file over the configuration.
func (c *Config) merge(path string) error {
	text, err := regular.Read(path, maxFile)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	return c.Merge(path, text)
}

// Merge lays the text of a file over the configuration. The error names every mistake, a line each.
func (c *Config) Merge(filename string, text []byte) error {
	parsed, diags := hclsyntax.ParseConfig(text, filename, hcl.InitialPos)
	if diags.HasErrors() {
		return job.JoinMistakes(diags.Errs()...)
	}
	body, ok := parsed.Body.(*hclsyntax.Body)
	if !ok {
		return fmt.Errorf("read configuration: %s: not in native syntax", filename)
	}
	c.places = c.places.With(body)
	if err := c.decode(body); err != nil {
		return err
	}
	for _, block := range body.Blocks {
		if block.Type == "plugin" {
			p := c.Plugins[block.Labels[0]]
			p.Name, p.Range, p.Text = block.Labels[0], block.DefRange(), string(block.Body.SrcRange.SliceBytes(text))
			if p.Body == nil {
				p.Body = &hclsyntax.Body{SrcRange: p.Range, EndRange: p.Range}
			}
		}
	}
	return nil
}

// Check rejects a configuration with which no agent can run. Errors have file, line and column of values from files.
func (c *Config) Check() error {
	var errs []error
	refuse := func(bad bool, key, format string, args ...any) {
		if bad {
			errs = append(errs, c.places.Invalid(key, format, args...))
		}
	}
	oneOf := func(key, word string, words ...string) {
		refuse(!slices.Contains(words, word), key, "must be one of %s, not %q", strings.Join(words, ", "), word)
	}
	refuse(!filepath.IsAbs(c.DataDir), "data_dir", "must be an absolute path, not %q", c.DataDir)
	refuse(len(c.DataDir) > datadir.Longest, "data_dir", "has %d bytes; choose a path of at most %d, "+
		"because that of the socket in it is limited, unix(7)", len(c.DataDir), datadir.Longest)
	refuse(c.Ports.HTTP < -1 || c.Ports.HTTP > 65535, "ports.http", "%d is not a port", c.Ports.HTTP)
	if c.Ports.HTTP != -1 {
		cause := bindError(c.BindAddr, c.TLS.CertFile != "")
		refuse(cause != "", "bind_addr", "%q is %s", c.BindAddr, cause)
	}
	oneOf("log_level", c.LogLevel, "trace", "debug", "info", "warn", "error")
	refuse((c.TLS.CertFile == "") != (c.TLS.KeyFile == ""), c.places.Said("tls.cert_file", "tls.key_file"),
		"requires both cert_file and key_file")
	refuse(c.TLS.VerifyClient && c.TLS.CAFile == "", "tls.verify_https_client", "requires ca_file")
	refuse(!c.TLS.VerifyClient && c.TLS.CAFile != "", "tls.ca_file", "is for verify_https_client, which is off")
	refuse(c.Client.GCMaxAllocs < 0, "client.gc_max_allocs", "%d is negative", c.Client.GCMaxAllocs)

	refuse(c.Watch.Every < shortestInterval, "watch.every", "%s is less than %s", c.Watch.Every, shortestInterval)
	for _, pattern := range c.Watch.Cgroups {
		_, err := path.Match(pattern, "")
		refuse(err != nil || path.Join("/", pattern) == "/" || slices.Contains(strings.Split(pattern, "/"), ".."),
			"watch.cgroups", "has %q, which is not the path of cgroups such as system.slice/*.service", pattern)
	}

	t, h := c.Telemetry, c.History
	refuse(t.CollectionInterval < shortestInterval, "telemetry.collection_interval",
		"%s is less than %s", t.CollectionInterval, shortestInterval)
	oneOf("telemetry.allocation_detail", t.AllocationDetail, "none", "job", "task", "alloc")
	for _, rule := range t.PrefixFilter {
		refuse(!strings.HasPrefix(rule, "+") && !strings.HasPrefix(rule, "-"), "telemetry.prefix_filter",
			"has %q, which begins with neither + (allow) nor - (block)", rule)
	}
	// The default is the interval of the collection, whose mistakes have been reported.
	_, said := c.places["history.interval"]
	refuse(h.Interval < shortestInterval && (said || h.Interval != t.CollectionInterval), "history.interval",
		"%s is less than %s", h.Interval, shortestInterval)
	span, interval := durationText(h.Span), durationText(h.Interval)
	set := c.places.Said("history.span", "history.interval", "telemetry.collection_interval")
	if set == "history.span" {
		refuse(h.Span < h.Interval, set, "%s is shorter than history.interval %s", span, interval)
	} else {
		refuse(h.Span < h.Interval, set, "%s is longer than history.span %s", interval, span)
	}
	refuse(h.Interval >= shortestInterval && h.Span/h.Interval > maxPoints, set,
		"makes a history of %s with a reading every %s, which is more than %d readings a task", span, interval, maxPoints)
	return job.JoinMistakes(errs...)
}

// hostName matches names as DNS has them, RFC 1123, 2.1.
const hostName = `^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`

// bindError says why the agent cannot listen on a host, with TLS or without; empty if it can.
func bindError(host string, tls bool) string {
	const needs = "it requires tls { cert_file key_file }"
	_, err := netip.ParseAddr(host)
	switch isAddress := err == nil; {
	case isLoopback(host):
		return ""
	case host == "" || isAddress:
		if tls {
			return ""
		}
		return "reachable from the network; " + needs
	case !regexp.MustCompile(hostName).MatchString(host) || strings.Trim(host, "0123456789.") == "":
		return "not an IP address or localhost"
	case !tls:
		return "not an IP address or localhost, and may be reachable from the network; " + needs
	}
	return ""
}

// isLoopback reports whether only this machine can reach an address to listen on.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Token returns the token in the file of acl.token_file, or in TACHO_TOKEN; empty without one. The file must be
// readable for its owner only.
func (c *Config) Token() (string, error) {
	if c.ACL.TokenFile == "" {
		token := strings.TrimSpace(os.Getenv("TACHO_TOKEN"))
		if err := regular.CheckToken(token); err != nil {
			return "", fmt.Errorf("TACHO_TOKEN: %w", err)
		}
		return token, nil
	}
	token, err := readToken(c.ACL.TokenFile)
	if err != nil {
		return "", c.places.Fault("acl.token_file", err)
	}
	return token, nil
}

func readToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", fmt.Errorf("read token: %s has mode %04o, so that others can read it; chmod 600 %[1]s", path, mode)
	}
	token, err := regular.Token(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	return token, nil
}

// Address returns the agent's address for clients on this machine; empty if it listens on its socket only.
func (c *Config) Address() string {
	if c.Ports.HTTP < 0 {
		return ""
	}
	host := c.BindAddr
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(c.Ports.HTTP))
}

// Socket returns the path of the unix socket on which everything is served.
func (c *Config) Socket() string { return datadir.Socket(c.DataDir) }

const (
	shortestInterval = 100 * time.Millisecond
	// maxPoints bounds a task's history: a day at one reading a second.
	maxPoints = 86_400
)

// decode lays a file over the configuration.
func (c *Config) decode(body *hclsyntax.Body) error {
	if _, said := body.Attributes["plugin_dir"]; said {
		return c.places.Invalid("plugin_dir",
			"is an option of Nomad clients: this agent runs tasks with its built-in driver tacho only")
	}
	const follows = -1 // no file can set a duration below 0
	if c.History.Interval == c.Telemetry.CollectionInterval {
		c.History.Interval = follows
	}
	err := job.DecodeStruct("the configuration", body, c)
	if c.History.Interval == follows {
		c.History.Interval = c.Telemetry.CollectionInterval
	}
	return err
}

// durationText writes a duration as files do: 15m, not 15m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if rest, ok := strings.CutSuffix(text, "m0s"); ok {
		text = rest + "m"
	}
	if rest, ok := strings.CutSuffix(text, "h0m"); ok {
		text = rest + "h"
	}
	return text
}

// Reloaded returns the configuration with what may change while tasks run taken from next. ignored names the other
// differences.
func (c Config) Reloaded(next Config) (merged Config, ignored []string) {
	merged = c
	interval := c.Telemetry.CollectionInterval
	merged.LogLevel, merged.Client, merged.Telemetry = next.LogLevel, next.Client, next.Telemetry
	merged.ACL, merged.TLS, merged.Watch = next.ACL, next.TLS, next.Watch
	merged.Telemetry.CollectionInterval = interval
	for _, other := range []struct {
		name    string
		changed bool
	}{
		{"name", c.Name != next.Name},
		{"datacenter", c.Datacenter != next.Datacenter},
		{"region", c.Region != next.Region},
		{"data_dir", c.DataDir != next.DataDir},
		{"bind_addr", c.BindAddr != next.BindAddr},
		{"ports", c.Ports != next.Ports},
		{"plugin", !samePlugins(c.Plugins, next.Plugins)},
		{"history", c.History != next.History},
		{"telemetry collection_interval", interval != next.Telemetry.CollectionInterval},
		{"tls", (c.TLS.CertFile == "") != (next.TLS.CertFile == "")}, // on or off; certificates are read again
		{"client meta", !reflect.DeepEqual(c.Client.Meta, next.Client.Meta)},
	} {
		if other.changed {
			ignored = append(ignored, other.name)
		}
	}
	merged.Client.Meta = c.Client.Meta
	if (c.TLS.CertFile == "") != (next.TLS.CertFile == "") {
		merged.TLS = c.TLS
	}
	return merged, ignored
}

// samePlugins compares plugin blocks as text: the expressions in them have no equality.
func samePlugins(a, b map[string]*Plugin) bool {
	return maps.EqualFunc(a, b, func(p, q *Plugin) bool { return p.Text == q.Text })
}
