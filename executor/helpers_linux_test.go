// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
)

// visit connects to the fixture's executor a second time; the test closes it.
func (f *fixture) visit() *client.Client {
	f.t.Helper()
	visitor := testkit.Value(client.Visit(f.t.Context(), f.Address()))(f.t)
	return visitor
}

// write writes to a file of the fixture, such as a FIFO that its task waits for.
func (f *fixture) write(name, text string) {
	f.t.Helper()
	file := testkit.Value(os.OpenFile(filepath.Join(f.dir, name), os.O_WRONLY, 0))(f.t)
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		f.t.Fatal(err)
	}
}

// expectEvent waits for an event of a kind.
func (f *fixture) expectEvent(kind string) *proto.Event {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), soon)
	defer cancel()
	stream := testkit.Value(f.Events(ctx))(f.t)
	for {
		event, err := stream.Recv()
		if err != nil {
			f.t.Fatalf("no event %s: %v", kind, err)
		}
		if event.GetKind() == kind {
			return event
		}
	}
}

// allEvents returns the events of an ended task.
func (f *fixture) allEvents() []*proto.Event {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), soon)
	defer cancel()
	stream := testkit.Value(f.Events(ctx))(f.t)
	var all []*proto.Event
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(f.t, err)
		all = append(all, event)
	}
}

// privateDirty is the executor's memory that nobody shares, in bytes.
func (f *fixture) privateDirty() int {
	f.t.Helper()
	pid := strconv.Itoa(f.Address().Executor.PID)
	return f.procNumber("/proc/"+pid+"/smaps_rollup", "Private_Dirty:") << 10
}

// procNumber returns the number after a key in a file of lines.
func (f *fixture) procNumber(path, key string) int {
	f.t.Helper()
	file := testkit.Value(os.Open(path))(f.t)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != key {
			continue
		}
		n := testkit.Value(strconv.Atoi(fields[1]))(f.t)
		return n
	}
	f.t.Fatalf("%s has no %s", path, key)
	return 0
}

// needRoot skips a test that only root can do.
func needRoot(t testing.TB, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("%s takes root", why)
	}
}

// str is a number in words of digits.
func str[N int32 | uint64](n N) string { return strconv.FormatInt(int64(n), 10) }
