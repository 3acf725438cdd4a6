// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A caller and its executor recognise each other as a host and its plugin do by go-plugin, for gRPC. A task pays for
// its executor, which needs none of what go-plugin's own server adds: reflection, a broker, and copied output.
const (
	// SocketDir is the variable in an executor's environment that has the directory for its socket.
	SocketDir = "PLUGIN_UNIX_SOCKET_DIR"
	// Cookie is set in an executor's environment. It is no secret: it tells one that was started by us from one that a
	// user started by hand.
	Cookie = cookieName + "=" + cookieValue

	cookieName, cookieValue = "TACHO_EXECUTOR_COOKIE", "f1c5a8e07d2b4c36"

	socketPrefix = "plugin"
	// The versions of the line and of the protocol, and where the socket stands between them.
	lineStart, lineEnd = "1|1|unix|", "|grpc|"
)

// Listen returns the socket of this executor, which is removed when it is closed.
func Listen() (net.Listener, error) {
	if os.Getenv(cookieName) != cookieValue {
		return nil, errors.New("it is for other processes to start, not for people")
	}
	name := socketPrefix + strconv.FormatUint(uint64(rand.Uint32()), 10)
	path := filepath.Join(cmp.Or(os.Getenv(SocketDir), os.TempDir()), name)
	listener, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("create socket: %w", err)
	}
	return listener, nil
}

// Line is what an executor that listens at a socket prints.
func Line(socket string) string { return lineStart + socket + lineEnd + "\n" }

// SocketIn returns the socket in the line of an executor.
func SocketIn(line string) (string, error) {
	rest, begins := strings.CutPrefix(line, lineStart)
	socket, _, complete := strings.Cut(rest, lineEnd)
	if !begins || !complete {
		return "", fmt.Errorf("executor says %q in place of its address", line)
	}
	return socket, nil
}

// FindSocket returns the socket in an executor's folder; empty if there is none.
func FindSocket(folder string) string {
	sockets, err := filepath.Glob(filepath.Join(folder, socketPrefix+"*"))
	if err != nil || len(sockets) == 0 {
		return ""
	}
	return sockets[0]
}
