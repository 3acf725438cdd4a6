// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// Step changes what a program sees or may do.
type Step string

const (
	// ReadOnlyCgroups makes the cgroup mounts read-only, as container runtimes do.
	ReadOnlyCgroups Step = "read-only-cgroups"
	// NoCgroups takes the cgroup mounts away.
	NoCgroups Step = "no-cgroups"
	// CgroupNamespace makes the program's groups the roots that it sees.
	CgroupNamespace Step = "cgroup-namespace"
	// CgroupMounts mounts the hierarchies anew: in a cgroup namespace nothing above its root can be seen then.
	CgroupMounts Step = "cgroup-mounts"
	// Leaf moves into a group named init below the v2 root that is seen, which has no processes then.
	Leaf Step = "leaf"
	// Proc mounts /proc anew, for a new PID namespace.
	Proc Step = "proc"
	// HiddenProcesses mounts /proc anew with hidepid=2: the processes of other users are out of sight.
	HiddenProcesses Step = "hidden-processes"
	// InitCgroupNamespace joins the cgroup namespace of the first process that /proc shows.
	InitCgroupNamespace Step = "cgroup-namespace-of-init"
	// EmptyRun mounts a new /run.
	EmptyRun Step = "empty-run"
	// NoClone3 and NoPidfd make system calls fail with ENOSYS, as filters of container runtimes do.
	NoClone3 Step = "no-clone3"
	// NoPidfd is the same for pidfd_open(2).
	NoPidfd Step = "no-pidfd"
	// NoPressure hides /proc/pressure behind an empty folder, as container runtimes mask files.
	NoPressure Step = "no-pressure"
	// ProcessesOnly mounts /proc anew with subset=pid, which has nothing but processes.
	ProcessesOnly Step = "processes-only"
	// MaskedProc hides what is not of a process in /proc behind empty files and folders, as container runtimes do.
	MaskedProc Step = "masked-proc"
	// NoProc takes /proc away.
	NoProc Step = "no-proc"
	// NoSys takes /sys away, with the cgroups in it.
	NoSys Step = "no-sys"
	// NoDevices has an empty /dev.
	NoDevices Step = "no-devices"
)

// Options say how a program is confined.
type Options struct {
	// Steps are taken in their order, in mounts of the program's own, before its user is changed.
	Steps []Step
	// Cgroups are the folders of groups to move into first.
	Cgroups []string
	// UID and GID are taken before the program is executed, where they are not those of the caller.
	UID, GID int
}

// variable holds the options of a process that is to confine itself.
const variable = "E2E_CONFINE"

// Wrap makes a command, which the caller has not started, run confined: through this program again, of which self is
// a copy that the user may execute, and whose main or TestMain calls Main first. New PID and user namespaces are for
// the caller to ask for in cmd.SysProcAttr: they take effect in a new process only.
func Wrap(cmd *exec.Cmd, self string, o Options) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, variable+"="+string(text))
	cmd.Args = append([]string{self, cmd.Path}, cmd.Args...)
	cmd.Path = self
	return nil
}

// Main confines this process and executes the program, if Wrap asked for that; it does not return then.
func Main() {
	text, wanted := os.LookupEnv(variable)
	if !wanted {
		return
	}
	runtime.LockOSThread()
	err := errors.Join(os.Unsetenv(variable), confine(text))
	if err == nil {
		// What was changed for this thread only holds for all of the new program.
		err = unix.Exec(os.Args[1], os.Args[2:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "confine:", err)
	os.Exit(126)
}

func confine(text string) error {
	var o Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	for _, dir := range o.Cgroups {
		if err := enter(dir); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(o.Steps, Step.mounts) {
		if err := privateMounts(); err != nil {
			return err
		}
	}
	for _, step := range o.Steps {
		if err := step.take(); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	if o.UID == os.Geteuid() {
		return nil
	}
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(o.GID), syscall.Setuid(o.UID))
}

// enter moves this process into a group.
func enter(dir string) error {
	// Without O_CREATE: in a folder that is no group there is nothing to write to.
	procs, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = procs.WriteString("0")
	return errors.Join(err, procs.Close())
}

func (s Step) take() error {
	switch s {
	case ReadOnlyCgroups:
		return eachCgroupMount(func(m kernel.CgroupMount) error {
			return unix.Mount("", m.Point, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		})
	case NoCgroups:
		return eachCgroupMount(func(m kernel.CgroupMount) error { return unix.Unmount(m.Point, unix.MNT_DETACH) })
	case CgroupNamespace:
		return unix.Unshare(unix.CLONE_NEWCGROUP)
	case CgroupMounts:
		return eachCgroupMount(remount)
	case Leaf:
		return enterLeaf()
	case Proc:
		return unix.Mount("proc", "/proc", "proc", 0, "")
	case HiddenProcesses:
		return unix.Mount("proc", "/proc", "proc", 0, "hidepid=2")
	case ProcessesOnly:
		return unix.Mount("proc", "/proc", "proc", 0, "subset=pid")
	case MaskedProc:
		return maskProc()
	case NoProc:
		return unix.Unmount("/proc", unix.MNT_DETACH)
	case NoSys:
		return unix.Unmount("/sys", unix.MNT_DETACH)
	case NoDevices:
		return unix.Mount("tmpfs", "/dev", "tmpfs", 0, "mode=0755")
	case InitCgroupNamespace:
		return joinInit()
	case EmptyRun:
		return unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755")
	case NoClone3:
		return deny(unix.SYS_CLONE3)
	case NoPidfd:
		return errors.Join(deny(unix.SYS_PIDFD_OPEN), deny(unix.SYS_PIDFD_SEND_SIGNAL))
	case NoPressure:
		return unix.Mount("tmpfs", "/proc/pressure", "tmpfs", unix.MS_RDONLY, "")
	}
	return errors.New("no such step")
}

// mounts reports whether the step changes mounts.
func (s Step) mounts() bool {
	return !slices.Contains([]Step{CgroupNamespace, InitCgroupNamespace, Leaf, NoClone3, NoPidfd}, s)
}

func maskProc() error {
	entries, err := os.ReadDir("/proc")
	for _, entry := range entries {
		path := filepath.Join("/proc", entry.Name())
		_, process := strconv.Atoi(entry.Name())
		switch {
		case process == nil || entry.Type()&fs.ModeSymlink != 0: // self, and links into it
		case entry.IsDir():
			err = errors.Join(err, unix.Mount("tmpfs", path, "tmpfs", unix.MS_RDONLY, ""))
		default:
			err = errors.Join(err, unix.Mount("/dev/null", path, "", unix.MS_BIND, ""))
		}
	}
	return err
}

func enterLeaf() error {
	const leaf = "/sys/fs/cgroup/init"
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return enter(leaf)
}

// privateMounts gives this thread mounts of its own.
func privateMounts() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
}

func eachCgroupMount(do func(kernel.CgroupMount) error) error {
	mounts, err := kernel.CgroupMounts(kernel.HostFS())
	for _, mount := range mounts {
		err = errors.Join(err, do(mount))
	}
	return err
}

// remount mounts a hierarchy anew. The same file system is not mounted on itself.
func remount(m kernel.CgroupMount) error {
	kind, data := "cgroup2", ""
	if m.Version == 1 {
		kind, data = "cgroup", strings.Join(m.Controllers, ",")
	}
	return errors.Join(unix.Unmount(m.Point, unix.MNT_DETACH), unix.Mount("none", m.Point, kind, 0, data))
}

func joinInit() error {
	file, err := os.Open("/proc/1/ns/cgroup")
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Setns(int(file.Fd()), unix.CLONE_NEWCGROUP)
}

// deny makes a system call fail with ENOSYS for this thread and all that it becomes, seccomp(2).
func deny(call uint32) error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
}
