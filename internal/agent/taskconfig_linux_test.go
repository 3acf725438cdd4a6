// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/job"
)

// TestKillSignalIsChecked is about a name that would be found wrong when the task is to be stopped.
func TestKillSignalIsChecked(t *testing.T) {
	r := begin(t, testConfig(shortDir(t)))
	defer r.end(true)
	for name, fault := range map[string]string{"": "", "SIGUSR1": "", "hup": "", "SIGTREM": `kill_signal: signal "SIGTREM"`} {
		_, err := r.Validate(t.Context(), job.Source{Text: oneTask("batch", "kill_signal = \""+name+"\"", "true")})
		if fault == "" && err != nil || fault != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), fault)) {
			t.Errorf("%q: %v, want %q in it", name, err, fault)
		}
	}
}
