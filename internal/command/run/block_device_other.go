// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package run

import (
	"errors"
	"fmt"
)

// blockDevice returns an error: only Linux limits block devices.
func blockDevice(name string) (string, error) {
	return "", fmt.Errorf("limits of block devices: %w", errors.ErrUnsupported)
}
