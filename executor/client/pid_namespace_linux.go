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

// CheckProc rejects a /proc of another PID namespace, where a PID is that of another process than ours. It is nil if
// /proc cannot be read at all: the next reader reports that.
func CheckProc(host kernel.FS) error {
	self, err := os.Readlink(filepath.Join(host.Proc, "self"))
	if err != nil || self == strconv.Itoa(os.Getpid()) {
		return nil //nolint:nilerr // the next reader has more to say
	}
	return fmt.Errorf("%s belongs to another PID namespace (this is process %d here and %s there); remount it: mount -t proc proc /proc",
		host.Proc, os.Getpid(), self)
}
