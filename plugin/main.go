// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver"
)

// Main is the plugin process: it serves our own driver to the host that started it. It returns the exit code when
// the host is done with it; tasks run on.
func Main(version string) int {
	// The host's end of standard error breaks when the host is killed, and a plugin that logs something then must
	// live: a later host reattaches to it. A signal that is notified does not kill, and is not inherited by children as
	// an ignored one would be.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: os.Stderr, JSONFormat: true})
	tacho := driver.New(driver.Options{Config: driver.DefaultConfig(), Version: version, Remote: true, Logger: logger})
	Serve(Info{Name: driver.Name, Version: version}, tacho, logger)
	if err := tacho.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "tacho plugin:", err)
		return 1
	}
	return 0
}
