// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package unit

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/confine"
	"github.com/tachograph/tacho/e2e/rig"
)

const (
	// taskVariable makes this binary the command of a task, or a relay to the socket in socketVariable.
	taskVariable   = "E2E_UNIT_TASK"
	socketVariable = "E2E_UNIT_SOCKET"
)

func TestMain(m *testing.M) {
	confine.Main()
	switch task := os.Getenv(taskVariable); {
	case filepath.Base(os.Args[0]) == "kill":
		os.Exit(kill(os.Args[1:]))
	case task == "beat":
		os.Exit(beat())
	case task == "greedy":
		os.Exit(greedy())
	case task == "relay":
		os.Exit(relay(os.Getenv(socketVariable)))
	}
	os.Exit(rig.Main(m))
}

// kill is kill(1), as far as the unit needs it: there is none in a guest.
func kill(args []string) int {
	if len(args) == 2 && args[0] == "-HUP" {
		if pid, err := strconv.Atoi(args[1]); err == nil && syscall.Kill(pid, syscall.SIGHUP) == nil {
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, "kill:", strings.Join(args, " "))
	return 1
}

// beat is a task that witnesses its starts and its life.
func beat() int {
	dir := filepath.Join(os.Getenv("NOMAD_ALLOC_DIR"), "data")
	if err := addLine(filepath.Join(dir, "starts")); err != nil {
		return 1
	}
	for range time.Tick(100 * time.Millisecond) {
		if err := addLine(filepath.Join(dir, "beats")); err != nil {
			return 1
		}
	}
	return 0
}

func addLine(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, os.Getpid()); err != nil {
		return err
	}
	return f.Close()
}

// greedy is a task that takes memory until it is killed.
func greedy() int {
	var all [][]byte
	for range 512 {
		part := make([]byte, 1<<20)
		for i := 0; i < len(part); i += 4096 {
			part[i] = 1
		}
		all = append(all, part)
	}
	return len(all) % 2
}

// relay passes on between a socket and the standard streams.
func relay(path string) int {
	conn, err := net.Dial("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		return 1
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin) // until either side goes away
		_ = conn.Close()
	}()
	_, _ = io.Copy(os.Stdout, conn)
	return 0
}
