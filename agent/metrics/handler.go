// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ServeHTTP answers with the Prometheus text format, or with OpenMetrics where the client asks for it.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	families := c.Gather(r.Context())
	kind, text := TextType, []byte(nil)
	if strings.Contains(r.Header.Get("Accept"), "application/openmetrics-text") {
		kind, text = OpenMetricsType, AppendOpenMetrics(make([]byte, 0, sizeOf(families)), families)
	} else {
		text = AppendText(make([]byte, 0, sizeOf(families)), families)
	}
	answer(w, kind, text)
}

// ServeJSON answers with the keys of Nomad's /v1/metrics.
func (c *Collector) ServeJSON(w http.ResponseWriter, r *http.Request) {
	families := c.Gather(r.Context())
	answer(w, "application/json", append(AppendJSON(nil, families, time.Now()), '\n'))
}

func answer(w http.ResponseWriter, kind string, text []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // a client that went away is not an error of ours
}

// sizeOf estimates the length of a page, so that it is allocated once.
func sizeOf(families []Family) int {
	n := 64
	for i := range families {
		f := &families[i]
		n += 2*len(f.Name) + len(f.Help) + 32
		for _, s := range f.Samples {
			n += len(f.Name) + len(s.Labels.text) + 20
		}
	}
	return n
}
