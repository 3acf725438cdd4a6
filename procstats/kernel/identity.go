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

// Identity is who a process is and whose child.
type Identity struct {
	procstats.ProcessID
	PPID int
	// Session is the PID of the session's leader, setsid(2).
	Session int
	// Zombie reports that the process has ended and waits for its parent.
	Zombie bool
}

// Identify reads the identity of a process from /proc/PID/stat below a proc root. The error wraps ENOENT or ESRCH
// for a process that is gone.
func Identify(root FS, pid int) (Identity, error) {
	stat, _, err := readStat(root, pid)
	if err != nil {
		return Identity{}, err
	}
	id := procstats.ProcessID{PID: pid, Start: stat.Start}
	return Identity{ProcessID: id, PPID: stat.PPID, Session: stat.Session, Zombie: stat.Ended()}, nil
}

// Alive reports whether a process runs and is still the same one: its number may be another's by now. A zombie does not
// run.
func Alive(root FS, id procstats.ProcessID) bool {
	now, err := Identify(root, id.PID)
	return err == nil && now.ProcessID == id && !now.Zombie
}

// BootID returns the random id of this boot, random(4): process ids and start times of another mean nothing.
func BootID(root FS) (string, error) {
	text, err := ReadFile(filepath.Join(root.Proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("no boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// PIDNamespace returns the name of this process's PID namespace, pid_namespaces(7), such as pid:[4026531836]; empty if
// the kernel has none. Process ids of another namespace mean nothing in this one.
func PIDNamespace(root FS) string { return namespace(root, "self", "pid") }

func namespace(root FS, process, kind string) string {
	name, _ := os.Readlink(filepath.Join(root.Proc, process, "ns", kind)) // empty without one
	return name
}

// InInitialPIDNamespace reports whether the PIDs of this process are those that the kernel logs: the first PID
// namespace has a fixed number, PROC_PID_INIT_INO in include/linux/proc_ns.h.
func InInitialPIDNamespace(fs FS) bool { return PIDNamespace(fs) == "pid:[4026531836]" }

// InInitialTimeNamespace reports whether the clocks of this process are those of the kernel, time_namespaces(7): a
// fixed number too, PROC_TIME_INIT_INO. A kernel without those namespaces has no other clocks.
func InInitialTimeNamespace(fs FS) bool {
	name, err := os.Readlink(filepath.Join(fs.Proc, "self/ns/time"))
	return errors.Is(err, os.ErrNotExist) || name == "time:[4026531834]"
}

// InInitialUserNamespace reports whether the capabilities of this process are those of the machine: a fixed number too,
// PROC_USER_INIT_INO.
func InInitialUserNamespace(fs FS) bool {
	name := namespace(fs, "self", "user")
	return name == "" || name == "user:[4026531837]"
}

// StatusField returns a field of /proc/self/status, proc_pid_status(5); empty if it cannot be read.
func StatusField(fs FS, name string) string {
	text, _ := ReadFile(filepath.Join(fs.Proc, "self/status"))
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Capable reports whether this process has an effective capability, in its user namespace.
func Capable(fs FS, capability uint) bool {
	set, err := strconv.ParseUint(StatusField(fs, "CapEff"), 16, 64)
	return err == nil && set&(1<<capability) != 0
}

// Comm returns the name of a process, /proc/PID/comm, which may have newlines.
func Comm(fs FS, pid int) (string, error) {
	text, err := ReadFile(fs.path(pid, "comm"))
	return procstats.EscapeName(strings.TrimSuffix(string(text), "\n")), err
}

// OwnOOMScoreAdj is how much the OOM killer spares or prefers this process, -1000 to 1000: /proc/self/oom_score_adj,
// proc_pid_oom_score_adj(5), since Linux 2.6.36.
func OwnOOMScoreAdj(fs FS) (int, error) {
	path := filepath.Join(fs.Proc, "self", "oom_score_adj")
	text, err := ReadFile(path)
	if err != nil {
		return 0, err //nolint:wrapcheck // it names the operation and the file
	}
	adj, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || adj < -1000 || adj > 1000 {
		return 0, fmt.Errorf("read %s: %q is not in -1000 to 1000", path, text)
	}
	return adj, nil
}

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
