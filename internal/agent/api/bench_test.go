// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkStats is one answer of the stats path, without a connection.
func BenchmarkStats(b *testing.B) {
	h := newTestServer(newFake()).Handler(false)
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), "GET", "http://localhost/v1/client/allocation/"+webID+"/stats", nil))
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}
