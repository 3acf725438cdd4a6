// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire_test

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
)

// TestHandover holds that the newest handover is read as it was written, after longer and shorter ones.
func TestHandover(t *testing.T) {
	folder := t.TempDir()
	if _, err := wire.ReadHandover(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a handover: %v", err)
	}
	w, err := wire.OpenHandover(folder)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var memory []byte
	for i := range 50 {
		h := wire.Handover{Last: sample(random, i+1)}
		if random.IntN(2) == 0 {
			h.Before = sample(random, i+1)
		}
		if random.IntN(2) == 0 {
			h.Rows = sample(random, i+1)
		}
		if err := w.Write(h, &memory); err != nil {
			t.Fatal(err)
		}
		got, err := wire.ReadHandover(folder)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, got.Last, totals(h.Last))
		if (got.Before == nil) != (h.Before == nil) || (got.Rows == nil) != (h.Rows == nil) {
			t.Fatalf("got %+v, want %+v", got, h)
		}
		if h.Before != nil {
			equal(t, got.Before, totals(h.Before))
		}
		if h.Rows != nil {
			equal(t, got.Rows, h.Rows)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	holdTorn(t, folder)
}

// totals is a sample as it is after its rows were left behind.
func totals(s *procstats.Sample) *procstats.Sample {
	c := *s
	c.Omitted, c.Processes = s.Omitted+len(s.Processes), nil
	return &c
}

// holdTorn holds that a file which is not whole is none: its writer was killed.
func holdTorn(t *testing.T, folder string) {
	t.Helper()
	path := filepath.Join(folder, "samples")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), text...)
	flipped[len(flipped)/4] ^= 1
	for name, torn := range map[string][]byte{"empty": nil, "cut": text[:12], "flipped": flipped} {
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		if h, err := wire.ReadHandover(folder); err == nil {
			t.Errorf("%s: %+v", name, h)
		}
	}
}
