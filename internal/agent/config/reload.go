// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"maps"
	"reflect"
)

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
