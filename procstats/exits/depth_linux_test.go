// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Of the deepest cgroup that is watched, what ends below it is counted, and one further down is refused.
func TestDepth(t *testing.T) {
	const deepest = 15
	r, dir := openReader(t), group(t) // the first is at level 1
	for level := 1; level < deepest+1; level++ {
		dir = filepath.Join(dir, "d")
		must(t, os.Mkdir(dir, 0o755))
		defer func() {
			noError(t, os.Remove(dir))
			dir = filepath.Dir(dir)
		}()
	}
	if _, err := r.Watch(dir); err == nil || !strings.Contains(err.Error(), "more than 15 others above it") {
		t.Errorf("watch at level %d: %v", deepest+1, err)
	}
	if _, err := r.Watch(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("watch a cgroup that is not there: %v", err)
	}
	w, err := r.Watch(filepath.Dir(dir))
	must(t, err)
	run(t, dir, shell(t, "/bin/true; /bin/true; :"))
	s, err := w.Finish(time.Second)
	var ended int64
	for _, c := range s.Commands {
		ended += c.Processes
	}
	if ended != 3 || err != nil {
		t.Errorf("%d processes have ended, %v; want 3", ended, err)
	}
	noError(t, w.Close())
}
