// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/tachograph/tacho/internal/agent/places"
)

const (
	shortestInterval = 100 * time.Millisecond
	// maxPoints bounds a task's history: a day at one reading a second.
	maxPoints = 86_400
)

func logLevels() []string { return []string{"trace", "debug", "info", "warn", "error"} }

func details() []string { return []string{"none", "job", "task", "alloc"} }

// file is a configuration file. Its blocks are those of the Config that it is decoded over: what the file does not set
// keeps its value.
type file struct {
	Name       *string    `hcl:"name"`
	Datacenter *string    `hcl:"datacenter"`
	Region     *string    `hcl:"region"`
	DataDir    *string    `hcl:"data_dir"`
	BindAddr   *string    `hcl:"bind_addr"`
	LogLevel   *string    `hcl:"log_level"`
	Ports      *Ports     `hcl:"ports,block"`
	Plugins    []plugin   `hcl:"plugin,block"`
	Telemetry  *Telemetry `hcl:"telemetry,block"`
	History    *History   `hcl:"history,block"`
	Client     *Client    `hcl:"client,block"`
	ACL        *ACL       `hcl:"acl,block"`
	TLS        *TLS       `hcl:"tls,block"`
}

type plugin struct {
	Name   string `hcl:"name,label"`
	Config *struct {
		Body hcl.Body `hcl:",remain"`
	} `hcl:"config,block"`
	Range hcl.Range `hcl:",def_range"`
}

// decode lays a file over the configuration.
func (c *Config) decode(body *hclsyntax.Body) error {
	if _, said := body.Attributes["plugin_dir"]; said {
		return c.places.Invalid("plugin_dir",
			"is an option of Nomad clients: this agent runs tasks with its built-in driver tacho only")
	}
	invalid := c.readDurations(body)
	f := file{Ports: &c.Ports, Telemetry: &c.Telemetry, History: &c.History, Client: &c.Client, ACL: &c.ACL, TLS: &c.TLS}
	const follows = -1 // no file can set a duration below 0
	if c.History.Interval == c.Telemetry.CollectionInterval {
		c.History.Interval = follows
	}
	meta := c.Client.Meta
	if diags := decodeBody(body, reflect.ValueOf(&f).Elem()); diags.HasErrors() {
		return places.Join(diags.Errs()...)
	}
	if c.History.Interval == follows {
		c.History.Interval = c.Telemetry.CollectionInterval
	}
	if meta != nil {
		meta = maps.Clone(meta)
		maps.Copy(meta, c.Client.Meta)
		c.Client.Meta = meta
	}
	for into, value := range map[*string]*string{
		&c.Name: f.Name, &c.Datacenter: f.Datacenter, &c.Region: f.Region, &c.DataDir: f.DataDir, &c.BindAddr: f.BindAddr,
		&c.LogLevel: f.LogLevel,
	} {
		if value != nil {
			*into = *value
		}
	}
	for _, p := range f.Plugins {
		own := &Plugin{Name: p.Name, Range: p.Range, Body: &hclsyntax.Body{SrcRange: p.Range, EndRange: p.Range}}
		if p.Config != nil {
			own.Body = p.Config.Body
		}
		c.Plugins[p.Name] = own
	}
	return invalid
}

// readDurations puts numbers in the place of durations such as "10s", for decodeBody, which knows only numbers. It
// removes what is null: that is not set.
func (c *Config) readDurations(body *hclsyntax.Body) error {
	var errs []error
	keys := map[string][]string{
		"telemetry": {"collection_interval"}, "history": {"span", "interval"}, "client": {"gc_age", "gc_interval"},
	}
	for _, block := range body.Blocks {
		for name, attribute := range block.Body.Attributes {
			value, diags := attribute.Expr.Value(nil)
			if value.IsNull() && !diags.HasErrors() {
				delete(block.Body.Attributes, name)
				continue
			}
			text, err := convert.Convert(value, cty.String)
			if !slices.Contains(keys[block.Type], name) || diags.HasErrors() || err != nil {
				continue // decodeBody reports what is wrong
			}
			d, err := time.ParseDuration(text.AsString())
			if err != nil || d < 0 {
				errs = append(errs, c.places.Invalid(block.Type+"."+name,
					"must be a duration such as \"10s\" or \"1h30m\", not %q", text.AsString()))
			}
			attribute.Expr = &hclsyntax.LiteralValueExpr{Val: cty.NumberIntVal(int64(d)), SrcRange: attribute.Expr.Range()}
		}
	}
	return places.Join(errs...)
}
