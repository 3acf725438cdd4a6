// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestLate counts processes right after they were reaped, some with several threads, while others keep the scheduler
// from coming back to them and a reader looks all the time.
func TestLate(t *testing.T) {
	r := openReader(t)
	for range 4 * runtime.NumCPU() {
		busy := shell(t, "while :; do :; done")
		must(t, busy.Start())
		defer func() {
			noError(t, busy.Process.Kill())
			_ = busy.Wait() // it was killed
		}()
	}
	for range 5 {
		late(t, r)
	}
}

func late(t *testing.T, r *Reader) {
	t.Helper()
	dir := group(t)
	w, err := r.Watch(dir)
	must(t, err)
	cmd := shell(t, "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; /bin/false; done; for i in 1 2 3; do EXITS_HELPER=leader $SELF; done; echo over; read end")
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	must(t, errors.Join(errIn, errOut, start(t, dir, cmd)))
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
	noError(t, errors.Join(in.Close(), w.Close()))
	_ = cmd.Wait() // read(1) fails
}
