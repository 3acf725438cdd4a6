// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"strings"
	"syscall"
)

// defaultStopSignal is what hosts mean where they name none.
const defaultStopSignal = syscall.SIGINT

// parseSignal returns the signal of a name such as SIGTERM or term.
func parseSignal(name string) (syscall.Signal, error) {
	full := strings.ToUpper(strings.TrimSpace(name))
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if signal := signalNumber(full); signal != 0 {
		return signal, nil
	}
	return 0, fmt.Errorf("signal %q has no number on this system: %w", name, ErrInvalid)
}
