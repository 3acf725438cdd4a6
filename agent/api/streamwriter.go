// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"time"
)

// streamWriter sends each piece at once. A client that takes longer than stall for one is dropped.
type streamWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

func (s *Server) newStreamWriter(w http.ResponseWriter, r *http.Request) *streamWriter {
	stall := s.stall
	if Trusted(r.Context()) {
		stall = s.patience
	}
	return &streamWriter{w: w, control: http.NewResponseController(w), stall: stall}
}

func (s *streamWriter) write(p []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.stall)) // writers without deadlines are those of tests
	if _, err := s.w.Write(p); err != nil {
		return err
	}
	return s.control.Flush()
}
