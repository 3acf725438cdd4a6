// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"time"

	"github.com/tachograph/tacho/driver"
)

const testToken = "a-token-for-tests"

func newTestServer(f *fakeAgent) *Server {
	s := New(f, Options{Token: testToken, Hosts: []string{"Tacho.Example"}})
	s.now = func() time.Time { return epoch }
	return s
}

type fakeExec struct {
	driver.ExecStream
	ctx context.Context
}
