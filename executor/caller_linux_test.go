// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestCallerDiesBeforeLaunch takes an executor's caller away before it has asked for a task, as the kernel does with
// one that is killed: by closing what it read from.
func TestCallerDiesBeforeLaunch(t *testing.T) {
	t.Parallel()
	for name, greeted := range map[string]bool{"at once": false, "once it listens": true} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "e")
			must(t, os.Mkdir(folder, 0o700))
			cmd := exec.Command(self(), "executor", "test")
			cmd.Env = []string{
				wire.Cookie,
				wire.SocketDir + "=" + folder,
			}
			stdout := testkit.Value(cmd.StdoutPipe())(t)
			must(t, cmd.Start())
			// It has ended where the test went well.
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			if greeted {
				if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			must(t, stdout.Close())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = cmd.Wait() // that it ends is what counts
			}()
			select {
			case <-ended:
			case <-time.After(5 * time.Second):
				t.Fatal("the executor of a dead caller is still there after 5 s")
			}
			if _, err := os.Stat(folder); err == nil {
				t.Errorf("it left its folder behind")
			}
		})
	}
}
