// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire_test

import (
	"testing"

	"github.com/tachograph/tacho/executor/wire"
)

// TestLine holds that callers of any build find the socket in what an executor prints, and in nothing else.
func TestLine(t *testing.T) {
	for line, want := range map[string]string{
		wire.Line("/run/tacho/e/plugin1"):            "/run/tacho/e/plugin1",
		"1|1|unix|/run/tacho/e/plugin1|grpc|\n":      "/run/tacho/e/plugin1",
		"1|1|unix|/run/tacho/e/plugin1|grpc||true\n": "/run/tacho/e/plugin1",
		"1|1|tcp|127.0.0.1:1|grpc|\n":                "",
		"1|1|unix|/run/tacho/e/plugin1|netrpc|\n":    "",
		"1|1|unix|/run/tacho/e/plug":                 "",
		"":                                           "",
	} {
		if got, err := wire.SocketIn(line); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
}
