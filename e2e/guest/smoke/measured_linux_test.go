// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package smoke

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestMeasured asserts that "tacho doctor" works here, and logs what it finds for the table of kernels in the
// documentation.
func TestMeasured(t *testing.T) {
	program := os.Getenv("TACHO_BIN")
	if program == "" {
		t.Skip("TACHO_BIN is not set")
	}
	text, err := exec.Command(program, "doctor", "--format", "json").Output()
	testkit.Must(t, err)
	var found struct {
		Checks []struct{ Name, State, Found string }
		// Readable and Absent are measurements.
		Readable []string
		Absent   map[string]string
	}
	testkit.Must(t, json.Unmarshal(text, &found))
	if len(found.Readable) == 0 {
		t.Error("nothing can be measured")
	}
	t.Logf("measured here: measurements: %d of %d", len(found.Readable), len(found.Readable)+len(found.Absent))
	for _, check := range found.Checks {
		value := map[string]string{"works": "yes", "missing": "no"}[check.State]
		switch {
		case check.Name == "kernel":
			value = strings.TrimPrefix(check.Found, "Linux ")
		case value == "":
			value = check.State
		}
		t.Logf("measured here: %s: %s", strings.Replace(check.Name, "blkio", "io", 1), value)
	}
}
