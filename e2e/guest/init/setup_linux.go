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

// account is the user who runs the test binary.
type account struct {
	name   string
	id     uint32 // of the user and of its group
	home   string
	cgroup string // v2 cgroup to start in, "" for where init is
}

// mountKernel mounts what the kernel shows of itself.
func mountKernel() error {
	return errors.Join(
		mount("proc", "/proc", "proc", ""),
		mount("sysfs", "/sys", "sysfs", ""),
		mountDev(),
	)
}

func mountDev() error {
	return errors.Join(
		// Devices and programs have to work here.
		mountWith("devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=0755"),
		mountWith("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0620,ptmxmode=0666,gid=5"),
		mount("tmpfs", "/dev/shm", "tmpfs", "mode=1777"),
		os.Symlink("/proc/self/fd", "/dev/fd"),
	)
}

// mount mounts a file system without devices, programs and set-user-ID bits, in a folder that it
// makes.
func mount(source, target, fstype, data string) error {
	return mountWith(source, target, fstype, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, data)
}

func mountWith(source, target, fstype string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}

// loadModules loads kernel modules in the order given.
func loadModules(files []string) error {
	for _, file := range files {
		image, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := unix.InitModule(image, ""); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load %s: %w", file, err)
		}
	}
	return nil
}

// setUp makes the rest of the system: folders, the network, accounts, cgroups.
func setUp(p plan.Plan) (account, error) {
	user := account{name: "root", home: "/root"}
	if p.User != "root" {
		user = account{name: p.User, id: plan.Nobody, home: filepath.Join("/home", p.User)}
	}
	// Programs that a test builds or unpacks run in /tmp.
	err := errors.Join(
		mountWith("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"),
		mountWith("tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
		writeFiles(),
		own(user.home, user),
		loopback(),
	)
	for _, out := range p.Outputs {
		dir := out.Path
		if !out.Folder {
			dir = filepath.Dir(dir)
		}
		err = errors.Join(err, own(dir, user))
	}
	if err != nil {
		return user, err
	}
	if err := mountCgroups(p.Cgroup); err != nil {
		return user, err
	}
	if p.Delegate {
		user.cgroup, err = delegate(int(user.id))
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

// own makes a folder that belongs to the user, unless it is there.
func own(dir string, user account) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chown(dir, int(user.id), int(user.id))
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
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}
