// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"compress/gzip"
	"io"
	"net/http/httptest"
	"testing"
)

// TestGzip holds that the page is compressed for clients that take that, and only for these, and is the same.
func TestGzip(t *testing.T) {
	get := func(accept string) (page, coding string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
		r.Header.Set("Accept-Encoding", accept)
		w := httptest.NewRecorder()
		newTestCollector(newFake()).ServeHTTP(w, r)
		body := io.Reader(w.Body)
		if coding = w.Header().Get("Content-Encoding"); coding != "" {
			var err error
			if body, err = gzip.NewReader(w.Body); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), coding
	}
	for accept, want := range map[string]string{
		"": "", "identity": "", "br, zstd": "", "gzip;q=0": "", "gzip; q=0.0": "", "xgzip": "",
		"gzip": "gzip", "deflate, GZIP": "gzip", "br;q=1, gzip;q=0.5": "gzip", "gzip; q=1": "gzip",
	} {
		page, coding := get(accept)
		if coding != want || len(page) < 1000 {
			t.Errorf("Accept-Encoding %q: coding %q, %d bytes, want %q", accept, coding, len(page), want)
		}
	}
}
