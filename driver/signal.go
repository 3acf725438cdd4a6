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

// CheckSignal refuses a name that is no signal here, with an error that wraps ErrInvalid. Empty is the default.
func CheckSignal(name string) error {
	if name == "" {
		return nil
	}
	_, err := parseSignal(name)
	return err
}

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
