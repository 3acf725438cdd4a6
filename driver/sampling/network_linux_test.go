// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// TestNetwork holds that the loop counts the packets of a task, which its executor does not, until the end of the task.
func TestNetwork(t *testing.T) {
	const script = "mkfifo go; read x <go; for i in 1 2 3 4 5; do bash -c 'echo 1234 >/dev/udp/127.0.0.1/9'; done"
	k := run(t, script, nil)
	loop := newLoop(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	task := k.task()
	over := make(chan struct{})
	task.Done = over // the driver asks before it closes its own
	s, err := loop.Open(ctx, task, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(k.folder, "go"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
	if headline.Value == nil || *headline.Value != 0 || headline.Guarantee != procstats.LowerBound {
		t.Errorf("headline %+v, want at least 0: the packets are those of the loopback interface", headline)
	}
	close(over)
	for err == nil {
		_, err = s.Recv()
	}
	loop.Close()
	if sample, _ := loop.Network(task.ID); sample != nil {
		t.Error("a task without a stream has counts")
	}
}
