// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/testkit"
)

// startRole starts tacho with a role that says ready, waits until it does and returns the record of the running task.
func startRole(t *testing.T, place *rig.Place, cmd *exec.Cmd) *record.Record {
	t.Helper()
	reader, writer, err := os.Pipe()
	testkit.Must(t, err)
	defer reader.Close()
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = writer, &stderr
	cmd.WaitDelay = 2 * time.Second
	err = cmd.Start()
	writer.Close()
	testkit.Must(t, err)
	t.Cleanup(func() {
		defer func() {
			if t.Failed() && stderr.Len() > 0 {
				t.Logf("stderr: %s", &stderr)
			}
		}()
		if cmd.ProcessState == nil {
			// It has ended by itself where the test went well.
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			for late := time.After(deadline); len(place.Strays()) > 0; {
				select {
				case <-late:
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
	})
	testkit.Must(t, reader.SetReadDeadline(time.Now().Add(deadline)))
	line, err := bufio.NewReader(reader).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("%q, %v, want ready", line, err)
	}
	return place.Running(t)
}

// closed waits for the end of tacho and for the record's last word.
func closed(t *testing.T, place *rig.Place, cmd *exec.Cmd) *record.Record {
	t.Helper()
	_ = cmd.Wait() // how it ended is told by the record
	return place.Closed(t)
}

// visit connects to the executor of a running task.
func visit(t *testing.T, place *rig.Place) *client.Client {
	t.Helper()
	var found *wire.Address
	rig.Eventually(t, deadline, "an executor keeps a record here", func() bool {
		// What is wrong with other executors is none of our business.
		for _, dir := range client.ExistingRuntimeDirs(filepath.Join(filepath.Dir(place.Dir), "t", "tacho")) {
			addresses, _ := client.List(dir)
			for _, address := range addresses {
				if filepath.Dir(address.RecordDir) == place.Out {
					found = address
				}
			}
		}
		return found != nil
	})
	c := testkit.Value(client.Visit(t.Context(), *found))(t)
	t.Cleanup(func() { testkit.NoError(t, c.Close()) })
	return c
}
