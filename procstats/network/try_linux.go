// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// tryLimit is how long a packet to this process may take.
const tryLimit = 200 * time.Millisecond

var errSilent = errors.New("a packet that this process sent itself was not counted")

// Try counts a packet that this process sends to itself: what loads may still count nothing. The error says why packets
// cannot be counted here.
func Try(host kernel.FS) error {
	c, err := Trial(host)
	if err != nil {
		return err
	}
	return c.Close()
}

// Trial does the same, and leaves the counter open that it did it with. The first program of a kind in any cgroup, and the removal
// of the last, patch the kernel's code, which stops all CPUs for a moment: what is opened meanwhile, and stays, spares that.
func Trial(host kernel.FS) (*Counter, error) {
	own, err := kernel.FindCgroup(host, os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("try to count packets: %w", err)
	}
	if own.V2 == "" {
		return nil, errors.New("no hierarchy of cgroup version 2 is mounted")
	}
	c, err := Count(host, own.V2)
	if err != nil {
		return nil, err
	}
	err = sendToSelf()
	if err == nil {
		if seen := c.Read(); seen.SentLoopback.Packets == 0 || seen.ReceivedLoopback.Packets == 0 {
			err = errSilent
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// sendToSelf sends a datagram over the loopback interface, and returns when it has arrived.
func sendToSelf() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("create socket: %w", err)
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	var self unix.Sockaddr
	if err == nil {
		self, err = unix.Getsockname(fd)
	}
	if err == nil {
		err = unix.Sendto(fd, []byte{0}, 0, self)
	}
	if err == nil {
		err = awaitInput(fd)
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return fmt.Errorf("send a packet over the loopback interface: %w", err)
	}
	return nil
}

func awaitInput(fd int) error {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(tryLimit.Milliseconds())) //nolint:gosec // a descriptor
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return os.NewSyscallError("poll", err)
		case n == 0:
			return errSilent
		default:
			return nil
		}
	}
}

// explain says what is missing where packets cannot be counted.
func explain(host kernel.FS, err error) error {
	lockdown, _ := os.ReadFile(filepath.Join(host.Sys, "kernel/security/lockdown"))
	switch {
	case strings.Contains(string(lockdown), "[confidentiality]"):
		return fmt.Errorf("the kernel is locked down: %w", err)
	case os.Geteuid() == 0 && errors.Is(err, unix.EPERM): // a container can take the capabilities from root
		return fmt.Errorf("CAP_BPF and CAP_NET_ADMIN are required, and before Linux 5.11 a limit of locked memory (ulimit -l) that has room for it: %w", unix.EPERM)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES): // without the text of the library, which suspects a limit
		return fmt.Errorf("CAP_BPF and CAP_NET_ADMIN are required; run as root: %w", unix.EPERM)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("it takes Linux 5.7 or later with CONFIG_CGROUP_BPF: %w", err)
	}
	return err
}
