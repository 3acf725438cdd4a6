// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// FuzzRequest looks for a request that makes the server fail.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/v1/client/allocation/"+webID+"/stats", "task=web", "")
	f.Add("GET", "/v1/client/allocation/"+webID+"/stats/history", "since=5m&step=1s&measurements=cpu_cores,psi", "")
	f.Add("GET", "/v1/client/fs/logs/"+webID, "task=web&type=stdout&offset=3&origin=end", "")
	f.Add("PUT", "/v1/jobs", "", `{"Source":"x","Filename":"y","Variables":{"a":"b"}}`)
	f.Add("GET", "/v1/jobs", "index=40&wait=1ms", "")
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		if strings.HasSuffix(path, "/stream") || strings.Contains(query, "follow") || strings.HasSuffix(path, "/exec") {
			t.Skip("only the client ends a stream")
		}
		fake := newFake()
		s := newTestServer(fake)
		s.blockFor = time.Millisecond
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", strings.NewReader(body))
		r.Method, r.Host = method, "localhost"
		r.URL = &url.URL{Path: "/" + strings.TrimPrefix(path, "/"), RawQuery: query}
		if r.URL.Query().Get("wait") != "" {
			t.Skip("waits as long as it is asked to")
		}
		w := httptest.NewRecorder()
		s.Handler(true).ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != http.StatusNotImplemented {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
