// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestReadWaited(t *testing.T) {
	read := func() Waited {
		t.Helper()
		w := testkit.Value(ReadWaited(HostFS(), os.Getpid()))(t)
		return w
	}
	before := read()
	testkit.Equal(t, read(), before, "without a child")
	must(t, exec.Command("/bin/true").Run())
	if after := read(); after == before {
		t.Errorf("a child was waited for, and it is still %+v", after)
	}
	if _, err := ReadWaited(FS{Proc: t.TempDir()}, 1); !Gone(err) {
		t.Errorf("of a process that is gone: %v", err)
	}
}

// TestChildrenOfEndingThreads lists children while the thread that made one ends, and leaves it to another thread.
func TestChildrenOfEndingThreads(t *testing.T) {
	for range 100 {
		child := exec.Command("cat")
		hold := testkit.Value(child.StdinPipe())(t)
		started, ended := make(chan error), make(chan struct{})
		go func() {
			defer close(ended)
			runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
			started <- child.Start()
		}()
		must(t, <-started)
		for range 20 {
			children, err := Children(HostFS(), os.Getpid())
			if err != nil || !slices.Contains(children, child.Process.Pid) {
				t.Errorf("children %v (%v), and %d is one", children, err, child.Process.Pid)
			}
		}
		<-ended
		noError(t, hold.Close())
		noError(t, child.Wait())
	}
}
