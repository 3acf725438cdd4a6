// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestSlowClientsLeaveRoom has 2,000 trusted clients that ask for streams and read nothing. A command in a task must still
// find room, and the memory for those clients must be bounded.
func TestSlowClientsLeaveRoom(t *testing.T) {
	const clients, most = 2000, 64 << 20
	f := newFake()
	f.exec = &fakeExec{err: driver.ErrCommandNotFound}
	f.allocs[0].Dir = datadir.In(t.TempDir(), webID)
	f.writeLog(t, strings.Repeat("x", 16<<20))
	s := newTestServer(f)
	url, _ := serve(t, s)
	before := heap()
	paths := []string{
		"/v1/client/fs/logs/" + webID + "?type=stdout&follow=true", "/v1/event/stream",
		"/v1/client/allocation/" + webID + "/stats/stream", "/v1/jobs?index=1000000&wait=5m",
	}
	for i := range clients {
		conn := testkit.Value(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nX-Nomad-Token: %s\r\n\r\n", paths[i%len(paths)], testToken); err != nil {
			t.Fatal(err)
		}
	}
	want := uint64(clients - streams.DefaultLimits()[streams.Trusted])
	until(t, fmt.Sprintf("%d clients were refused", want), func() bool { return s.options.Streams.Usage()[0].Refused >= want })
	conn := dial(t, url+"/v1/client/allocation/"+webID+`/exec?task=web&command=["x"]`)
	for _, want := range []string{`"stderr"`, `"exit_code":127`} {
		if _, text, err := conn.Read(t.Context()); !strings.Contains(string(text), want) || err != nil {
			t.Errorf("%s, %v", text, err)
		}
	}
	if grown := heap() - before; grown > most {
		t.Errorf("%d clients take %d MiB", clients, grown>>20)
	}
	resp := open(t.Context(), t, url+"/v1/metrics?format=prometheus")
	text := testkit.Value(io.ReadAll(resp.body))(t)
	for _, line := range []string{`kind="trusted"} 256`, fmt.Sprintf(`kind="trusted"} %d`, want), `kind="exec"} `} {
		if !strings.Contains(string(text), line) {
			t.Errorf("the metrics have no %s", line)
		}
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not in a minute: %s", what)
		case <-tick.C:
		}
	}
}

// heap returns the bytes of live objects and stacks, which are what clients take.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
