// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package run

import (
	"errors"
	"fmt"
)

// blockDevice returns the major:minor of a block device; only Linux limits them.
func blockDevice(name string) (string, error) {
	return "", fmt.Errorf("limits of devices: %w", errors.ErrUnsupported)
}
