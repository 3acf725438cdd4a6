// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOwnOOMScoreAdj(t *testing.T) {
	dir := t.TempDir()
	if _, err := OwnOOMScoreAdj(FS{Proc: dir}); !Gone(err) {
		t.Errorf("without a file: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "self"), 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{"0\n": 0, "-1000\n": -1000, "1000\n": 1000, "": -1, "1001\n": -1, "max\n": -1} {
		if err := os.WriteFile(filepath.Join(dir, "self", "oom_score_adj"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := OwnOOMScoreAdj(FS{Proc: dir})
		if invalid := want == -1; (err != nil) != invalid || !invalid && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
