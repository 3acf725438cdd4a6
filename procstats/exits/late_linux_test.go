// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats/exits"
)

// TestLate counts processes right after they were reaped, some with several threads, while others keep the scheduler
// from coming back to them and a reader looks all the time.
func TestLate(t *testing.T) {
	r := open(t)
	for range 4 * runtime.NumCPU() {
		busy := shell(t, "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := busy.Process.Kill(); err != nil {
				t.Error(err)
			}
			_ = busy.Wait() // it was killed
		}()
	}
	for range 10 {
		late(t, r)
	}
}

func late(t *testing.T, r *exits.Reader) {
	t.Helper()
	dir := group(t)
	w, err := r.Watch(dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := shell(t, "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; /bin/false; done; for i in 1 2 3; do EXITS_HELPER=leader $SELF; done; echo over; read end")
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, start(t, dir, cmd)); err != nil {
		t.Fatal(err)
	}
	over := make(chan error)
	go func() {
		_, err := io.ReadFull(out, make([]byte, len("over\n")))
		over <- err
	}()
	for done := false; !done; w.Read() {
		select {
		case err := <-over:
			if done = true; err != nil {
				t.Error(err)
			}
		case <-time.After(time.Millisecond):
		}
	}
	outstanding := w.Await(10 * time.Second)
	ended := make(map[string]int64)
	for _, c := range w.Read().Commands {
		ended[c.Name] = c.Processes
	}
	self := filepath.Base(os.Args[0])
	if ended["true"] != 10 || ended["false"] != 10 || ended[self[:min(len(self), 15)]] != 3 || outstanding > 0 {
		t.Errorf("10 of each and 3 with threads have ended: %v are counted, %d are outstanding", ended, outstanding)
	}
	if err := errors.Join(in.Close(), w.Close()); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // read(1) fails
}
