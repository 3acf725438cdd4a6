// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !unix

package agent

import (
	"errors"
	"fmt"

	"github.com/tachograph/tacho/internal/agent/allocdir"
)

// ownerOf knows no users here.
func ownerOf(name string) (*allocdir.Owner, error) {
	if name == "" {
		return nil, nil
	}
	return nil, fmt.Errorf("user %s: %w", name, errors.ErrUnsupported)
}
