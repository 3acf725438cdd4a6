// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/procstats"
)

// UnknownBoot is the boot id where /proc shows processes alone (subset=pid): processes of two boots are told apart by
// PID and start time only.
const UnknownBoot = "unknown"

// OwnHome returns where the ids of the processes in /proc mean what they mean to this process.
func OwnHome(root FS) (procstats.Home, error) {
	boot, err := BootID(root)
	if _, missing := os.Lstat(filepath.Join(root.Proc, "self")); err != nil && missing == nil {
		boot, err = UnknownBoot, nil
	}
	host, _ := os.Hostname() // empty if it is not known
	return procstats.Home{
		Host: host, BootID: boot, PIDNamespace: PIDNamespace(root), TimeNamespace: namespace(root, "self", "time"),
	}, errors.Join(err, CheckProc(root))
}

// MachineID returns machine-id(5); empty if there is none.
func MachineID() string {
	text, _ := os.ReadFile("/etc/machine-id")
	return strings.TrimSpace(string(text))
}

// CheckProc rejects a /proc of another PID namespace, where a PID is that of another process than ours, and one that is
// not mounted. It is nil for captured files without one.
func CheckProc(root FS) error {
	self, err := os.Readlink(filepath.Join(root.Proc, "self"))
	if err != nil && root.Live {
		return fmt.Errorf("%s has no processes: %w; mount it: mount -t proc proc /proc", root.Proc, err)
	}
	if err != nil || self == strconv.Itoa(os.Getpid()) {
		return nil //nolint:nilerr // the next reader has more to say
	}
	return fmt.Errorf("%s belongs to another PID namespace (this is process %d here and %s there); "+
		"remount it: mount -t proc proc /proc", root.Proc, os.Getpid(), self)
}

var (
	// ErrEnded says that a process has ended.
	ErrEnded = errors.New("the process has ended")
	// ErrOtherBoot says that the machine was booted since, and that nothing of that boot runs.
	ErrOtherBoot = fmt.Errorf("%w with the boot or the namespace that it was in", ErrEnded)
)

// ElsewhereError says where a process is that cannot be seen from here. It may run.
type ElsewhereError string

const (
	// InNamespace is the error for a process in another PID or time namespace.
	InNamespace ElsewhereError = "in another namespace"
	notVisible  ElsewhereError = "not visible from here" // without /proc, or short of descriptors
)

func (e ElsewhereError) Error() string { return string(e) }

// Find decides what is known of a process that was noted with its home, and with the socket on which it listens; empty
// for none. It returns nil if the process runs, ErrEnded if it has ended, which ErrOtherBoot is too, and an
// [ElsewhereError] if neither is known. What is elsewhere must not be signalled, removed or called lost.
//
// A boot is of one machine, also under another name: the name only tells an earlier boot from another machine. A
// container may have a boot id of its own, but what listens on a socket does so on this machine.
func Find(root FS, home procstats.Home, id procstats.ProcessID, socket string) error {
	own, err := OwnHome(root)
	unknown := home.BootID == UnknownBoot || own.BootID == UnknownBoot
	another := home.BootID != own.BootID && !unknown
	switch {
	case err != nil && home.BootID == "": // no system but Linux has one: the note counts
		return nil
	case (another || unknown) && home.Host != "" && home.Host != own.Host &&
		(home.Machine == "" || home.Machine != MachineID()):
		return ElsewhereError("running on " + home.Host)
	case err != nil:
		return notVisible
	case another && Connect(socket) == nil,
		!another && home.PIDNamespace != "" && home.PIDNamespace != own.PIDNamespace,
		!another && home.TimeNamespace != "" && home.TimeNamespace != own.TimeNamespace:
		return InNamespace
	case another:
		return ErrOtherBoot
	}
	now, err := Identify(root, id.PID)
	switch {
	case err != nil && !Gone(err):
		return notVisible
	case err == nil && now.ProcessID == id && !now.Zombie:
		return nil
	case err == nil && home.TimeNamespace == "" && now.Start != id.Start && !sharesTime(root, id.PID, own):
		return InNamespace // an older note, and perhaps its process: its start time is another there
	case unknown && Connect(socket) == nil:
		return InNamespace // of this boot, then
	}
	return ErrEnded
}

// sharesTime reports whether a process is in this process's time namespace, or may not be asked.
func sharesTime(root FS, pid int, own procstats.Home) bool {
	its := namespace(root, strconv.Itoa(pid), "time")
	return its == "" || its == own.TimeNamespace
}
