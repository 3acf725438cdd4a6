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

// network uses a socket that came to it in the way that is named, and ends a while later with the socket open, or closes
// it and ends. TYPE is a number, of AF_UNIX:
//
//	network FOR | close own | packet | elsewhere | handed TYPE PATH | listening TYPE PATH | inherited | talks TYPE PATH |
//	taken PID FD | activated COUNT WAY | left
func network(args []string) {
	fd := comes(args[1:])
	if args[0] == "close" {
		check(unix.Close(fd))
	} else {
		time.Sleep(value(time.ParseDuration(args[0])))
	}
	os.Exit(0)
}

// comes returns the socket, which it has used if it came from outside.
func comes(way []string) (fd int) {
	number := func(i int) int { return value(strconv.Atoi(way[i])) }
	switch way[0] {
	case "own":
		pair := value(unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0))
		check(unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(openSocket(unix.AF_INET)), nil, 0))
		return handed(pair[1])
	case "elsewhere":
		check(unix.Unshare(unix.CLONE_NEWNET))
		return openSocket(unix.AF_PACKET)
	case "packet":
		return openSocket(unix.AF_PACKET)
	case "talks":
		return connectTo(number(1), way[2])
	case "handed":
		from := connectTo(number(1), way[2])
		fd = handed(from)
		check(unix.Close(from))
	case "listening":
		from := value(unix.Socket(unix.AF_UNIX, number(1), 0))
		check(unix.Bind(from, &unix.SockaddrUnix{Name: way[2]}))
		if number(1) != unix.SOCK_DGRAM {
			check(unix.Listen(from, 1))
			accepted, _, err := unix.Accept(from)
			check(errors.Join(err, unix.Close(from)))
			from = accepted
		}
		fd = handed(from)
		check(unix.Close(from))
	case "inherited":
		fd = handed(0)
	case "left": // its cgroup of version 2, and the socket is made outside
		for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
			if _, err := os.Stat(root + "/cgroup.procs"); err == nil {
				moveInto(root)
			}
		}
		fd = openSocket(unix.AF_INET)
	case "activated":
		return activated(number(1), way[2])
	case "taken":
		pidfd := value(unix.PidfdOpen(number(1), 0))
		fd = value(unix.PidfdGetfd(pidfd, number(2), 0))
		check(unix.Close(pidfd))
	default:
		check(errors.New("unknown way: " + way[0]))
	}
	check(unix.Sendto(fd, []byte{0}, 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}))
	return fd
}

// activated answers one message at each of the sockets that it was started with, and returns the last of them. It may have
// a child answer, close the listener before it answers, or send something through a socket of its own, too.
func activated(sockets int, way string) (fd int) {
	const first = 3 // SD_LISTEN_FDS_START
	last := first + sockets - 1
	switch way {
	case "own":
		own := openSocket(unix.AF_INET)
		check(unix.Sendto(own, []byte{0}, 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}))
	case "child":
		var files []*os.File
		for fd := range last + 1 {
			files = append(files, os.NewFile(uintptr(fd), "inherited"))
		}
		args := []string{"workload", "network", "0s", "activated", strconv.Itoa(sockets), "self"}
		wait(value(os.StartProcess(value(os.Executable()), args, &os.ProcAttr{Files: files})))
		return last
	}
	for listener := first; listener < first+sockets; listener++ {
		conn := listener
		if value(unix.GetsockoptInt(conn, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)) == 1 {
			var err error
			conn, _, err = unix.Accept(listener)
			check(err)
			if way == "close" {
				check(unix.Close(listener))
			}
		}
		n, from, err := unix.Recvfrom(conn, make([]byte, 1), 0)
		check(err)
		if n == 1 && from != nil {
			check(unix.Sendto(conn, []byte{0}, 0, from))
		} else {
			value(unix.Write(conn, []byte{0}))
		}
		last = conn
	}
	return last
}

// connectTo connects to a server, and returns when it has sent something.
func connectTo(kind int, path string) (fd int) {
	fd = value(unix.Socket(unix.AF_UNIX, kind, 0))
	check(unix.Connect(fd, &unix.SockaddrUnix{Name: path}))
	_, _, err := unix.Recvfrom(fd, make([]byte, 1), unix.MSG_PEEK)
	check(err)
	return fd
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
