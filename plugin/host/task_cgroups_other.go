// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package host

import (
	"context"

	"github.com/tachograph/tacho/driver"
)

// taskCgroups makes no cgroups: this system has none.
type taskCgroups struct{}

func (*taskCgroups) make(context.Context, *driver.TaskConfig) error { return nil }

func (*taskCgroups) recover(*driver.TaskConfig) {}

func (*taskCgroups) end(context.Context, string) error { return nil }
