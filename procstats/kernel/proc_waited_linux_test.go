// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"os"
	"os/exec"
	"testing"
)

func TestReadWaited(t *testing.T) {
	read := func() Waited {
		t.Helper()
		w, err := ReadWaited(HostFS(), os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	before := read()
	if again := read(); again != before {
		t.Errorf("without a child it went from %+v to %+v", before, again)
	}
	if err := exec.Command("/bin/true").Run(); err != nil {
		t.Fatal(err)
	}
	if after := read(); after == before {
		t.Errorf("a child was waited for, and it is still %+v", after)
	}
	if _, err := ReadWaited(FS{Proc: t.TempDir()}, 1); !Gone(err) {
		t.Errorf("of a process that is gone: %v", err)
	}
}
