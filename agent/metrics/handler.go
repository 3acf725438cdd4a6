// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"net/http"
	"strings"

	"github.com/tachograph/tacho/exposition"
)

// ServeHTTP answers with the Prometheus text format, or with OpenMetrics where the client asks for it.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	families := c.Gather(r.Context())
	kind, write := exposition.TextType, exposition.WriteText
	if strings.Contains(r.Header.Get("Accept"), "application/openmetrics-text") {
		kind, write = exposition.OpenMetricsType, exposition.WriteOpenMetrics
	}
	w.Header().Set("Content-Type", kind)
	_ = write(w, families) // a client that went away is not an error of ours
}

// ServeJSON answers with the keys of Nomad's /v1/metrics.
func (c *Collector) ServeJSON(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(exposition.AppendJSON(nil, c.Gather(r.Context()), c.now()), '\n'))
}
