// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"localhost": "http://localhost:4656", "host:80": "http://host:80", "::1": "http://[::1]:4656",
		"[::1]":    "http://[::1]:4656",
		"[::1]:80": "http://[::1]:80", ":4656": "http://:4656", "https://host": "https://host",
		"/run/a.sock":      "unix:/run/a.sock",
		"unix:/run/a.sock": "unix:/run/a.sock",
	} {
		c := connection{addr: addr}
		testkit.Equal(t, c.address(t.Context()), want, "%q", addr)
	}
}
