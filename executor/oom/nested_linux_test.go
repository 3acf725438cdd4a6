// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestMostNested holds that the bound is on all groups together: the task chooses how they are nested.
func TestMostNested(t *testing.T) {
	const wide, deep = 20, 30
	for name, chain := range map[string]func(i int) string{
		"flat":   func(i int) string { return fmt.Sprint(i) },
		"nested": func(i int) string { return fmt.Sprintf("%d/%d", i%wide, i) },
	} {
		t.Run(name, func(t *testing.T) {
			own := t.TempDir()
			for i := range wide * deep {
				dir := filepath.Join(own, chain(i))
				must(t, os.MkdirAll(dir, 0o755))
				for _, dir := range []string{dir, filepath.Dir(dir)} {
					must(t, os.WriteFile(filepath.Join(dir, "memory.events"), []byte("oom_kill 1\n"), 0o644))
				}
			}
			n := newNestedV2(own)
			n.attribute(n.count(), 0)
			if len(n.seen) != mostNested || n.kills != mostNested {
				t.Errorf("%d groups were looked into, with %d kills, want %d of each", len(n.seen), n.kills, mostNested)
			}
		})
	}
}
