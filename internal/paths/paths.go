// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package paths knows where temporary files and sockets can be.
package paths

import (
	"fmt"
	"os"
	"path/filepath"
)

// LongestSocket is how many bytes the path of a unix socket can have, unix(7).
const LongestSocket = 107

// CheckSocket refuses the path of a socket that is too long: the kernel would call it an invalid argument.
func CheckSocket(path string) error {
	if len(path) > LongestSocket {
		return fmt.Errorf("the path of the socket %s has %d bytes; at most %d are possible, unix(7)",
			path, len(path), LongestSocket)
	}
	return nil
}

// TempDirs returns the directories for temporary files in the order in which they are to be tried: the environment may
// name one that cannot be used.
func TempDirs() []string { return []string{os.TempDir(), "/tmp", "/var/tmp"} }

// TempDir returns the first of TempDirs that exists, and whose path is absolute and has at most so many bytes; without
// any that of the environment.
func TempDir(longest int) string {
	for _, dir := range TempDirs() {
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() && filepath.IsAbs(dir) && len(dir) <= longest {
			return dir
		}
	}
	return os.TempDir()
}
