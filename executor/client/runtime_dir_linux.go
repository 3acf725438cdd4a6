// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/paths"
)

// candidate is a directory that may be the runtime directory of this user.
type candidate struct {
	dir string
	// base is a directory above it that must exist; empty if it is created, too.
	base string
}

// candidates returns the directories that may be the runtime directory, in the order in which they are tried.
func candidates() []candidate {
	var all []candidate
	add := func(base, below string) {
		if c := (candidate{filepath.Join(base, below), base}); base != "" && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	chosen, isRoot := os.Getenv("XDG_RUNTIME_DIR"), os.Geteuid() == 0
	// Not a choice: pam_systemd sets it, and with root's last session the directory goes, and executors with theirs.
	if isRoot && chosen == "/run/user/0" {
		add("/run", "tacho")
	}
	add(chosen, "tacho")
	if isRoot {
		add("/run", "tacho")
	}
	for _, base := range paths.TempDirs() {
		add(base, "tacho-"+strconv.Itoa(os.Geteuid()))
	}
	if cache, err := os.UserCacheDir(); err == nil {
		add(filepath.Dir(cache), filepath.Join(filepath.Base(cache), "tacho", "run"))
	}
	return all
}

// FindRuntimeDir returns the first candidate, or what was chosen instead of them, in which executors whose ids have at
// most so many bytes can have their folders, and which passes the checks. The error has each with its reason.
func FindRuntimeDir(chosen string, id int, checks ...func(dir string) error) (string, error) {
	if chosen != "" {
		return findUsable([]candidate{{dir: chosen}}, id, checks)
	}
	return findUsable(candidates(), id, checks)
}

func findUsable(all []candidate, id int, checks []func(dir string) error) (string, error) {
	var reasons []string
	for _, c := range all {
		err := c.check(id)
		for _, check := range checks {
			if err == nil {
				err = check(c.dir)
			}
		}
		if err == nil {
			return c.dir, nil
		}
		reasons = append(reasons, err.Error())
	}
	return "", fmt.Errorf("no directory for the sockets of executors: %s", strings.Join(reasons, "; "))
}

// ExistingRuntimeDirs returns those of the candidates, and of others, that this user has: executors may have been
// started in another environment.
func ExistingRuntimeDirs(others ...string) []string {
	for _, c := range candidates() {
		others = append(others, c.dir)
	}
	slices.Sort(others)
	return slices.DeleteFunc(slices.Compact(others), func(dir string) bool {
		return !filepath.IsAbs(dir) || checkOwn(dir) != nil
	})
}

// check says why executors whose ids have so many bytes cannot have their folders in a directory, which is created; nil
// if they can.
func (c candidate) check(id int) error {
	longest := LongestRuntimeDir(id)
	switch {
	case !filepath.IsAbs(c.dir):
		return fmt.Errorf("%q is not an absolute path", c.dir)
	case len(c.dir) > longest:
		return fmt.Errorf("%s has %d bytes; at most %d, so that the path of a socket in it fits in %d, unix(7)",
			c.dir, len(c.dir), longest, paths.LongestSocket)
	}
	if c.base != "" {
		if err := checkBase(c.base); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if err := checkOwn(c.dir); err != nil {
		return err
	}
	if err := unix.Access(c.dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s: %w", c.dir, err)
	}
	return nil
}

// checkBase refuses a directory whose owner could put another directory in the place of ours.
func checkBase(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.IsDir():
		return fmt.Errorf("%s: not a directory", dir)
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid() && info.Mode()&os.ModeSticky == 0:
		return fmt.Errorf("%s: owned by user %d", dir, stat.Uid)
	}
	return nil
}

// checkOwn refuses a directory that others can write to, or that is not ours: its owner could put a socket of
// their own there.
func checkOwn(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.IsDir():
		return fmt.Errorf("%s: not a directory; remove it", dir)
	case int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s: owned by user %d", dir, stat.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s: others can write to it (mode %#o); use one of mode 0700", dir, info.Mode().Perm())
	}
	return nil
}

// CheckRoom returns an error if a directory has no room for what an executor writes into its folder.
func CheckRoom(dir string) error {
	const room = 16 << 10
	path := filepath.Join(dir, ".room") // starts share it, so that at most one is left by those that were killed
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err == nil {
		_ = unix.Unlink(path) // another start may have done so
		n := 0
		if n, err = unix.Write(fd, make([]byte, room)); err == nil && n < room {
			err = unix.ENOSPC
		}
		err = errors.Join(err, unix.Close(fd))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}
