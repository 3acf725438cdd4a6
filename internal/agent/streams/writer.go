// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package streams

import (
	"fmt"
	"net/http"
	"time"
)

// Writer sends each piece at once. A client that takes longer than Stall for one is dropped.
type Writer struct {
	To    http.ResponseWriter
	Stall time.Duration
}

// Send sends a piece; an empty one is the head of the response.
func (s Writer) Send(p []byte) error {
	control := http.NewResponseController(s.To)
	_ = control.SetWriteDeadline(time.Now().Add(s.Stall)) // writers without deadlines are those of tests
	if _, err := s.To.Write(p); err != nil {
		return fmt.Errorf("write stream: %w", err)
	}
	if err := control.Flush(); err != nil {
		return fmt.Errorf("flush stream: %w", err)
	}
	return nil
}
