// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"slices"
	"syscall"
	"testing"
)

func TestClosedTerminalStopsOnlyDevelopment(t *testing.T) {
	for name, test := range map[string]struct {
		options agentOptions
		stops   bool
	}{
		"development":                      {agentOptions{dev: true}, true},
		"development with a configuration": {agentOptions{dev: true, config: []string{"c.hcl"}}, false},
		"service":                          {agentOptions{}, false},
	} {
		signals := test.options.stopSignals()
		if got := slices.Contains(signals, os.Signal(syscall.SIGHUP)); got != test.stops {
			t.Errorf("%s: SIGHUP stops: %t, want %t", name, got, test.stops)
		}
		if !slices.Contains(signals, os.Interrupt) || !slices.Contains(signals, os.Signal(syscall.SIGTERM)) {
			t.Errorf("%s: stops with %v, want SIGINT and SIGTERM", name, signals)
		}
	}
}
