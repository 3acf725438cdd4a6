// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"strconv"
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

// parseSignal returns the signal of a name such as SIGTERM or term, or of a number.
func parseSignal(name string) (syscall.Signal, error) {
	full := strings.ToUpper(strings.TrimSpace(name))
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if signal := signalNumber(full); signal != 0 {
		return signal, nil
	}
	if number, err := strconv.Atoi(strings.TrimSpace(name)); err == nil && number > 0 && number <= 64 {
		return syscall.Signal(number), nil
	}
	return 0, invalid("signal %q: must be a name such as TERM or a number from 1 to 64", name)
}
