// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestNetwork holds that the loop counts the packets of a task, which its executor does not, until the end of the
// task.
func TestNetwork(t *testing.T) {
	t.Parallel()
	const script = "mkfifo go; read x <go; for i in 1 2 3 4 5; do bash -c 'echo 1234 >/dev/udp/127.0.0.1/9'; done"
	k := run(t, script, nil)
	loop := newLoop(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	task := k.task()
	over := make(chan struct{})
	task.Done = over // the driver asks before it closes its own
	s := testkit.Value(loop.Open(ctx, task, time.Minute))(t)
	must(t, os.WriteFile(filepath.Join(k.folder, "go"), []byte("\n"), 0o600))
	<-k.done
	sample, source := loop.Network(task.ID)
	if sample == nil {
		t.Fatal("no counts")
	}
	if !source.Available {
		t.Skipf("packets are not counted here: %s", source.Reason)
	}
	name := procstats.SkbLoopbackSentPackets.String()
	if before, counted := k.final.Measurements[name]; counted && before != 0.0 {
		t.Errorf("the executor has counted %v packets", before)
	}
	k.final.SetNetwork(sample, source)
	if sent := k.final.Measurements[name]; sent != 5.0 {
		t.Errorf("sent %v packets, want 5", sent)
	}
	headline := k.final.Headline[procstats.HeadlineNetworkSent.String()]
	if headline.Value != nil || headline.Reason == "" {
		t.Errorf("headline %+v, want none: packets were counted only since the first sample", headline)
	}
	close(over)
	drain(s)
	loop.Close()
	if sample, _ := loop.Network(task.ID); sample != nil {
		t.Error("a task without a stream has counts")
	}
}

// deaf is the main function of a task that binds a socket, says in a file which, and sleeps from then on without
// reading it.
func deaf(file string) int {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err == nil {
		err = os.WriteFile(file+".new", []byte(conn.LocalAddr().String()), 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	select {} // until it is killed
}

// TestPacketsWhileAsleep sends packets to a task that sleeps and does not read them: they are in the next sample.
func TestPacketsWhileAsleep(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "address")
	self := testkit.Value(os.Executable())(t)
	k := run(t, "exec "+self+" deaf "+file, nil)
	if _, source := networkOf(t, k); !source.Available {
		t.Skipf("packets are not counted here: %s", source.Reason)
	}
	const interval = 50 * time.Millisecond
	s := open(t, newLoop(t), k, interval)
	var address []byte
	for deadline := time.Now().Add(limit); address == nil && time.Now().Before(deadline); recv(t, s) {
		address, _ = os.ReadFile(file)
	}
	conn := testkit.Value(net.Dial("udp4", string(address)))(t)
	defer conn.Close()
	received := func(of *procstats.Sample) float64 {
		n, ok := of.Task.Number(procstats.SkbLoopbackReceivedPackets)
		if !ok {
			t.Fatal("packets are not counted")
		}
		return n
	}
	for sent := 1.0; sent <= 5; sent++ {
		for quiet := 0; quiet < 2; { // the Go runtime of the task has come to rest
			if quiet++; recv(t, s).Checked.Zero() {
				quiet = 0
			}
		}
		if _, err := conn.Write([]byte("packet")); err != nil {
			t.Fatal(err)
		}
		recv(t, s) // it may have been read before
		if n := received(recv(t, s)); n != sent {
			t.Errorf("%v packets were received, want %v", n, sent)
		}
	}
}

// networkOf opens a stream of a task for a moment, and returns what counts its packets.
func networkOf(t *testing.T, k *task) (*procstats.Sample, procstats.SourceDescription) {
	t.Helper()
	l := newLoop(t)
	open(t, l, k, time.Minute)
	defer l.Close()
	return l.Network(k.task().ID)
}
