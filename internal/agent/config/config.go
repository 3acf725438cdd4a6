// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package config reads the agent's configuration: HCL files with the stanza names that Nomad's users know.
package config

import (
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
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
