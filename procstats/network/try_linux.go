// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/internal/bpf"
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

// Trial does the same, and leaves the counter open that it did it with. The first program of a kind in any cgroup, and
// the removal of the last, patch the kernel's code, which stops all CPUs for a moment: what is opened meanwhile, and
// stays, spares that.
func Trial(host kernel.FS) (*Counter, error) {
	own, err := kernel.FindCgroup(host, os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("try to count packets: %w", err)
	}
	if own.V2 == "" {
		return nil, bpf.NewRefused("no hierarchy of cgroup version 2 is mounted",
			"mount -t cgroup2 none DIR, which may be beside version 1", nil)
	}
	c, err := Count(host, own.V2)
	if err != nil {
		return nil, err
	}
	err = sendToSelf()
	if err == nil {
		if seen := c.Read(); seen[SentLoopback].Packets == 0 || seen[ReceivedLoopback].Packets == 0 {
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
	input, arrived := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0 //nolint:gosec // a descriptor
	err := kernel.Retried(func() (err error) {
		arrived, err = unix.Poll(input, int(tryLimit.Milliseconds()))
		return err
	})
	if err == nil && arrived == 0 {
		return errSilent
	}
	return os.NewSyscallError("poll", err)
}

// explain says what is missing where packets cannot be counted.
func explain(host kernel.FS, err error) error {
	return bpf.Explain(host, err, bpf.Needs{
		Capability: "CAP_NET_ADMIN", Number: unix.CAP_NET_ADMIN, Kernel: "Linux 5.10 or later with CONFIG_CGROUP_BPF=y",
	})
}
