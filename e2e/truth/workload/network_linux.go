// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// network uses a socket that came to it in the way that is named, and ends a while later with the socket open unless it
// is closed:
//
//	network FOR own | packet | closed | elsewhere | handed PATH | taken PID FD
func network(args []string) {
	stay := value(time.ParseDuration(args[0]))
	here := unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}
	switch args[1] {
	case "own":
		pair := value(unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0))
		check(unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(openSocket(unix.AF_INET)), nil, 0))
		handed(pair[1])
	case "elsewhere":
		check(unix.Unshare(unix.CLONE_NEWNET))
		openSocket(unix.AF_PACKET)
	case "packet":
		openSocket(unix.AF_PACKET)
	case "closed":
		check(unix.Close(openSocket(unix.AF_PACKET)))
	case "handed":
		from := value(unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0))
		check(unix.Connect(from, &unix.SockaddrUnix{Name: args[2]}))
		fd := handed(from)
		check(unix.Close(from))
		check(unix.Sendto(fd, []byte{0}, 0, &here))
	case "taken":
		pidfd := value(unix.PidfdOpen(value(strconv.Atoi(args[2])), 0))
		check(unix.Sendto(value(unix.PidfdGetfd(pidfd, value(strconv.Atoi(args[3])), 0)), []byte{0}, 0, &here))
	default:
		check(errors.New("unknown way: " + args[1]))
	}
	time.Sleep(stay)
	os.Exit(0)
}

func openSocket(family int) int { return value(unix.Socket(family, unix.SOCK_DGRAM, 0)) }

// handed returns the socket in a message.
func handed(from int) int {
	body, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(from, body, rights, 0)
	check(err)
	message := value(unix.ParseSocketControlMessage(rights[:n]))
	return value(unix.ParseUnixRights(&message[0]))[0]
}
