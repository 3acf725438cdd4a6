// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package main

import (
	"errors"
	"fmt"
)

func run([]string) { check(fmt.Errorf("workloads need Linux: %w", errors.ErrUnsupported)) }
