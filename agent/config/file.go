// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"maps"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/tachograph/tacho/errlist"
)

const (
	shortestInterval = 100 * time.Millisecond
	// maxPoints bounds a task's history: a day at one reading a second.
	maxPoints = 86_400
)

func logLevels() []string { return []string{"trace", "debug", "info", "warn", "error"} }

func details() []string { return []string{"none", "job", "task", "alloc"} }

// file is a configuration file. Pointers tell what is not said from zero.
type file struct {
	Name       *string    `hcl:"name"`
	Datacenter *string    `hcl:"datacenter"`
	Region     *string    `hcl:"region"`
	DataDir    *string    `hcl:"data_dir"`
	BindAddr   *string    `hcl:"bind_addr"`
	LogLevel   *string    `hcl:"log_level"`
	PluginDir  *string    `hcl:"plugin_dir"`
	Ports      *ports     `hcl:"ports,block"`
	Plugins    []plugin   `hcl:"plugin,block"`
	Telemetry  *telemetry `hcl:"telemetry,block"`
	History    *history   `hcl:"history,block"`
	Client     *client    `hcl:"client,block"`
	ACL        *acl       `hcl:"acl,block"`
	TLS        *tls       `hcl:"tls,block"`
}

type ports struct {
	HTTP *int `hcl:"http"`
}

type plugin struct {
	Name   string   `hcl:"name,label"`
	Args   []string `hcl:"args,optional"`
	Config *struct {
		Body hcl.Body `hcl:",remain"`
	} `hcl:"config,block"`
	Range hcl.Range `hcl:",def_range"`
}

type telemetry struct {
	CollectionInterval       *string  `hcl:"collection_interval"`
	PublishAllocationMetrics *bool    `hcl:"publish_allocation_metrics"`
	PublishNodeMetrics       *bool    `hcl:"publish_node_metrics"`
	PrometheusMetrics        *bool    `hcl:"prometheus_metrics"`
	DisableHostname          *bool    `hcl:"disable_hostname"`
	UseNodeName              *bool    `hcl:"use_node_name"`
	PrefixFilter             []string `hcl:"prefix_filter,optional"`
	FilterDefault            *bool    `hcl:"filter_default"`
	AllocationDetail         *string  `hcl:"allocation_detail"`
	NomadNames               *bool    `hcl:"nomad_names"`
	StatsdAddress            *string  `hcl:"statsd_address"`
	IncludeAllocMetadata     *bool    `hcl:"include_alloc_metadata_in_metrics"`
	AllowedMetadataKeys      []string `hcl:"allowed_metadata_keys_in_metrics,optional"`
}

type history struct {
	Span     *string `hcl:"span"`
	Interval *string `hcl:"interval"`
}

type client struct {
	GCAge        *string           `hcl:"gc_age"`
	GCInterval   *string           `hcl:"gc_interval"`
	GCMaxAllocs  *int              `hcl:"gc_max_allocs"`
	RetryHostOOM *bool             `hcl:"retry_host_oom"`
	Meta         map[string]string `hcl:"meta,optional"`
}

type acl struct {
	TokenFile *string `hcl:"token_file"`
}

type tls struct {
	CertFile     *string `hcl:"cert_file"`
	KeyFile      *string `hcl:"key_file"`
	CAFile       *string `hcl:"ca_file"`
	VerifyClient *bool   `hcl:"verify_https_client"`
}

// put overwrites a value where the file says one.
func put[T any](into *T, value *T) {
	if value != nil {
		*into = *value
	}
}

// apply lays what a file says over the configuration.
func (c *Config) apply(f *file) error {
	var errs []error
	put(&c.Name, f.Name)
	put(&c.Datacenter, f.Datacenter)
	put(&c.Region, f.Region)
	put(&c.DataDir, f.DataDir)
	put(&c.BindAddr, f.BindAddr)
	put(&c.LogLevel, f.LogLevel)
	put(&c.PluginDir, f.PluginDir)
	if f.Ports != nil {
		put(&c.Ports.HTTP, f.Ports.HTTP)
	}
	for _, p := range f.Plugins {
		own := &Plugin{Name: p.Name, Args: p.Args, Range: p.Range}
		if p.Config != nil {
			own.Body = p.Config.Body
		}
		c.Plugins[p.Name] = own
	}
	if f.Telemetry != nil {
		errs = append(errs, c.applyTelemetry(f.Telemetry))
	}
	if f.History != nil {
		errs = append(errs, c.duration(&c.History.Span, f.History.Span, "history.span"))
		errs = append(errs, c.duration(&c.History.Interval, f.History.Interval, "history.interval"))
	}
	if f.Client != nil {
		errs = append(errs, c.duration(&c.Client.GCAge, f.Client.GCAge, "client.gc_age"))
		errs = append(errs, c.duration(&c.Client.GCInterval, f.Client.GCInterval, "client.gc_interval"))
		put(&c.Client.GCMaxAllocs, f.Client.GCMaxAllocs)
		put(&c.Client.RetryHostOOM, f.Client.RetryHostOOM)
		if c.Client.Meta == nil {
			c.Client.Meta = make(map[string]string)
		}
		maps.Copy(c.Client.Meta, f.Client.Meta)
	}
	if f.ACL != nil {
		put(&c.ACL.TokenFile, f.ACL.TokenFile)
	}
	if f.TLS != nil {
		put(&c.TLS.CertFile, f.TLS.CertFile)
		put(&c.TLS.KeyFile, f.TLS.KeyFile)
		put(&c.TLS.CAFile, f.TLS.CAFile)
		put(&c.TLS.VerifyClient, f.TLS.VerifyClient)
	}
	return errlist.Join(errs...)
}

// applyTelemetry lays a telemetry block over this one. A history without an interval of its own follows the collection.
func (c *Config) applyTelemetry(f *telemetry) error {
	t := &c.Telemetry
	follows := c.History.Interval == t.CollectionInterval
	err := c.duration(&t.CollectionInterval, f.CollectionInterval, "telemetry.collection_interval")
	if follows {
		c.History.Interval = t.CollectionInterval
	}
	put(&t.PublishAllocationMetrics, f.PublishAllocationMetrics)
	put(&t.PublishNodeMetrics, f.PublishNodeMetrics)
	put(&t.PrometheusMetrics, f.PrometheusMetrics)
	put(&t.DisableHostname, f.DisableHostname)
	put(&t.UseNodeName, f.UseNodeName)
	put(&t.FilterDefault, f.FilterDefault)
	put(&t.AllocationDetail, f.AllocationDetail)
	put(&t.NomadNames, f.NomadNames)
	put(&t.StatsdAddress, f.StatsdAddress)
	put(&t.IncludeAllocMetadata, f.IncludeAllocMetadata)
	if f.PrefixFilter != nil {
		t.PrefixFilter = f.PrefixFilter
	}
	if f.AllowedMetadataKeys != nil {
		t.AllowedMetadataKeysInMetrics = f.AllowedMetadataKeys
	}
	return err
}

// duration reads a time such as "10s".
func (c *Config) duration(into *time.Duration, text *string, key string) error {
	if text == nil {
		return nil
	}
	parsed, err := time.ParseDuration(*text)
	if err != nil || parsed < 0 {
		return c.places.Wrong(key, "must be a duration such as \"10s\" or \"1h30m\", not %q", *text)
	}
	*into = parsed
	return nil
}
