// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package main

import (
	"github.com/tachograph/tacho/executor"
	"github.com/tachograph/tacho/internal/version"
	"github.com/tachograph/tacho/plugin"
)

// serve runs an executor, or the plugin of a host, if this process was started as one.
func serve(args []string) (code int, done bool) {
	switch {
	case len(args) > 0 && args[0] == "executor":
		return executor.Main(version.String()), true
	case len(args) == 0 && plugin.Requested(): // a host starts its plugins without arguments
		return plugin.Main(version.String()), true
	}
	return 0, false
}
