// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/internal/exposition"
)

// ServeHTTP answers with the Prometheus text format, or with OpenMetrics if the client asks for it.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, write := exposition.TextType, exposition.WriteText
	if wantsOpenMetrics(r.Header.Get("Accept")) {
		kind, write = exposition.OpenMetricsType, exposition.WriteOpenMetrics
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Vary", "Accept-Encoding")
	c.with(r.Context(), func(families []exposition.Family, memory *scratch) {
		if !acceptsGzip(r.Header.Get("Accept-Encoding")) {
			_ = write(w, families) // a client that went away is not an error of ours
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		zipped := memory.compress(w)
		if write(zipped, families) == nil {
			_ = zipped.Close() // as above
		}
	})
}

// acceptsGzip reports whether a client takes gzip, RFC 9110 section 12.5.3.
func acceptsGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		coding, parameters, _ := strings.Cut(part, ";")
		if coding = strings.TrimSpace(coding); !strings.EqualFold(coding, "gzip") {
			continue
		}
		quality, given := strings.CutPrefix(strings.TrimSpace(parameters), "q=")
		q, err := strconv.ParseFloat(quality, 64)
		return !given || err == nil && q > 0
	}
	return false
}

// wantsOpenMetrics reports whether a client would have OpenMetrics rather than text, RFC 9110, 12.5.1. One that takes
// anything gets text.
func wantsOpenMetrics(accept string) bool {
	text, open := 0.0, 0.0
	for part := range strings.SplitSeq(accept, ",") {
		kind, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		quality := 1.0
		if q, err := strconv.ParseFloat(parameters["q"], 64); err == nil {
			quality = q
		}
		switch kind {
		case "application/openmetrics-text":
			open = max(open, quality)
		case "text/plain":
			text = max(text, quality)
		}
	}
	return open > 0 && open >= text
}

// ServeJSON answers with the keys of Nomad's /v1/metrics.
func (c *Collector) ServeJSON(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	c.with(r.Context(), func(families []exposition.Family, _ *scratch) {
		_ = exposition.WriteJSON(w, families, c.now()) // a client that went away is not an error of ours
	})
}
