// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import (
	"os"
	"testing"
)

const (
	wantedVariable = "TACHO_E2E"
	tachoVariable  = "TACHO_BIN"
)

// Require skips a test where end-to-end tests were not asked for.
func Require(t testing.TB) {
	t.Helper()
	if !wanted() {
		t.Skipf("end-to-end tests were not asked for: set %s=1, or %s to the binary under test", wantedVariable, tachoVariable)
	}
}

func wanted() bool { return os.Getenv(wantedVariable) != "" || os.Getenv(tachoVariable) != "" }

// Must ends the test at an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
