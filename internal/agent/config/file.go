// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/tachograph/tacho/internal/agent/job"
)

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
