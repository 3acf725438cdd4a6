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

// decode lays a file over the configuration.
func (c *Config) decode(body *hclsyntax.Body) error {
	if _, said := body.Attributes["plugin_dir"]; said {
		return c.places.Invalid("plugin_dir",
			"is an option of Nomad clients: this agent runs tasks with its built-in driver tacho only")
	}
	invalid := c.readDurations(body)
	const follows = -1 // no file can set a duration below 0
	if c.History.Interval == c.Telemetry.CollectionInterval {
		c.History.Interval = follows
	}
	meta := c.Client.Meta
	plugins, diags := decodeBody(body, reflect.ValueOf(c).Elem(), "plugin")
	for _, block := range plugins {
		diags = append(diags, c.decodePlugin(block)...)
	}
	if diags.HasErrors() {
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
	return invalid
}

// decodePlugin reads a plugin block.
func (c *Config) decodePlugin(block *hcl.Block) hcl.Diagnostics {
	p := &Plugin{
		Name: block.Labels[0], Range: block.DefRange,
		Body: &hclsyntax.Body{SrcRange: block.DefRange, EndRange: block.DefRange},
	}
	content, diags := block.Body.Content(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "config"}}})
	for _, config := range content.Blocks {
		diags = append(diags, duplicates(config, content.Blocks)...)
		p.Body = config.Body
	}
	c.Plugins[p.Name] = p
	return diags
}

// readDurations replaces durations such as "10s" by numbers, because decodeBody knows only numbers. It removes null
// values, which are not set.
func (c *Config) readDurations(body *hclsyntax.Body) error {
	keys := []string{
		"telemetry.collection_interval", "history.span", "history.interval", "client.gc_age", "client.gc_interval",
	}
	errs := []error{c.readAttributes("", body, nil)}
	for _, block := range body.Blocks {
		errs = append(errs, c.readAttributes(block.Type+".", block.Body, keys))
	}
	return places.Join(errs...)
}

func (c *Config) readAttributes(prefix string, body *hclsyntax.Body, durations []string) error {
	var errs []error
	for name, attribute := range body.Attributes {
		value, diags := attribute.Expr.Value(nil)
		if value.IsNull() && !diags.HasErrors() {
			delete(body.Attributes, name)
			continue
		}
		text, err := convert.Convert(value, cty.String)
		if !slices.Contains(durations, prefix+name) || diags.HasErrors() || err != nil {
			continue // decodeBody reports what is wrong
		}
		d, err := time.ParseDuration(text.AsString())
		if err != nil || d < 0 {
			errs = append(errs, c.places.Invalid(prefix+name,
				"must be a duration such as \"10s\" or \"1h30m\", not %q", text.AsString()))
		}
		attribute.Expr = &hclsyntax.LiteralValueExpr{Val: cty.NumberIntVal(int64(d)), SrcRange: attribute.Expr.Range()}
	}
	return places.Join(errs...)
}
