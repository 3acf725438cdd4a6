// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tachograph/tacho/procstats/kernel"
)

// CheckProc refuses a /proc of another PID namespace, where the numbers of processes stand for others than ours. It is
// nil where /proc cannot be read at all: whoever reads it next says so.
func CheckProc(host kernel.FS) error {
	self, err := os.Readlink(filepath.Join(host.Proc, "self"))
	if err != nil || self == strconv.Itoa(os.Getpid()) {
		return nil //nolint:nilerr // the next reader has more to say
	}
	return fmt.Errorf("%s is that of another PID namespace (this is process %d, there it is %s): mount it anew, mount -t proc proc /proc",
		host.Proc, os.Getpid(), self)
}
