// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/guest/plan"
)

// Flags of mounts: programs that a test builds or unpacks run in /tmp, programs in /dev do not.
const (
	bare    = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	writing = unix.MS_NOSUID | unix.MS_NODEV
	devices = unix.MS_NOSUID | unix.MS_NOEXEC
)

func mountSystem() error {
	return errors.Join(
		mount("/proc", "proc", bare, ""),
		mount("/sys", "sysfs", bare, ""),
		mount("/dev", "devtmpfs", devices, "mode=0755"),
		mount("/dev/pts", "devpts", devices, "mode=0620,ptmxmode=0666,gid=5"),
		mount("/dev/shm", "tmpfs", bare, "mode=1777"),
		mount("/run", "tmpfs", writing, "mode=0755"),
		mount("/tmp", "tmpfs", writing, "mode=1777"),
		os.Symlink("/proc/self/fd", "/dev/fd"),
		os.MkdirAll("/var", 0o755),
		os.Symlink("/run", "/var/run"),
	)
}

// mount mounts a file system in a folder that it makes.
func mount(dir, fstype string, flags uintptr, data string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(fstype, dir, fstype, flags, data); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	return nil
}

// loadModules loads kernel modules in the order given.
func loadModules(files []string) error {
	for _, file := range files {
		if err := loadModule(file); err != nil {
			return fmt.Errorf("load %s: %w", file, err)
		}
	}
	return nil
}

func loadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if filepath.Ext(file) != ".ko" {
		flags = unix.MODULE_INIT_COMPRESSED_FILE // kernels whose modules are compressed know it
	}
	return unix.FinitModule(int(f.Fd()), "", flags)
}

// account is the user who runs the test binary.
type account struct {
	name   string
	id     int // of the user and of its group
	home   string
	cgroup string // v2 cgroup to start in, "" for where init is
}

// setUp makes what the test binary finds beside the file systems: accounts, its folders, the
// network, cgroups.
func setUp(p plan.Plan) (account, error) {
	user := account{name: "root", home: "/root"}
	if p.User != user.name {
		user = account{name: p.User, id: plan.Nobody, home: filepath.Join("/home", p.User)}
	}
	err := errors.Join(writeFiles(), makeFor(user, user.home), loopback(), mountCgroups(p.Cgroup))
	for _, test := range p.Tests {
		for _, file := range test.Outputs {
			err = errors.Join(err, makeFor(user, filepath.Dir(file)))
		}
	}
	if err == nil && p.Delegate {
		user.cgroup, err = delegate(user.id)
	}
	return user, err
}

func writeFiles() error {
	for file, text := range map[string]string{
		"/etc/passwd": fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\nnobody:x:%[1]d:%[1]d:nobody:/home/nobody:/bin/sh\n", plan.Nobody),
		"/etc/group":  fmt.Sprintf("root:x:0:\ntty:x:5:\nnogroup:x:%d:\n", plan.Nobody),
		"/etc/hosts":  "127.0.0.1 localhost\n::1 localhost\n",
		// Debian lets only root read the kernel's log; tests of both users look into it.
		"/proc/sys/kernel/dmesg_restrict": "0\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// makeFor makes a folder that belongs to the user, unless there is one.
func makeFor(user account, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	return errors.Join(os.MkdirAll(dir, 0o755), os.Chown(dir, user.id, user.id))
}

func loopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}
