// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	googleproto "google.golang.org/protobuf/proto"

	"github.com/tachograph/tacho/executor/proto"
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
	var rows *procstats.Sample
	for i := range 50 {
		h := wire.Handover{Last: sample(random, i+1)}
		switch random.IntN(3) {
		case 0:
			h.Before = sample(random, i+1)
		case 1:
			h.Before = earlier(random, h.Last)
		}
		if random.IntN(2) == 0 {
			h.Rows = sample(random, i+1)
			rows = h.Rows
		}
		if err := w.Write(h, &memory); err != nil {
			t.Fatal(err)
		}
		got, err := wire.ReadHandover(folder)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, got.Last, totals(h.Last))
		if (got.Before == nil) != (h.Before == nil) || (got.Rows == nil) != (rows == nil) {
			t.Fatalf("got %+v, want %+v", got, h)
		}
		if h.Before != nil {
			equal(t, got.Before, totals(h.Before))
		}
		if rows != nil {
			equal(t, got.Rows, rows)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	holdTorn(t, folder)
}

// earlier is a sample that has the readings of another one, some of them with other values.
func earlier(random *rand.Rand, of *procstats.Sample) *procstats.Sample {
	s := of.Clone()
	s.Mono--
	for i, r := range s.Task {
		if random.IntN(3) == 0 {
			s.Task[i] = procstats.NumberReading(r.ID(), random.Float64())
		}
	}
	return s
}

// TestHandoverWithoutRows holds that samples are handed over when rows cannot be written, as when no descriptor is left, and that rows
// are tried again.
func TestHandoverWithoutRows(t *testing.T) {
	folder := t.TempDir()
	w, err := wire.OpenHandover(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	inTheWay := filepath.Join(folder, "rows")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var memory []byte
	h := wire.Handover{Last: sample(random, 1), Rows: sample(random, 2)}
	if err := w.Write(h, &memory); !errors.Is(err, wire.ErrRows) {
		t.Errorf("rows that cannot be written: %v", err)
	}
	got, err := wire.ReadHandover(folder)
	if err != nil || got.Rows != nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	equal(t, got.Last, totals(h.Last))
	if err := errors.Join(os.Remove(inTheWay), w.Write(h, &memory)); err != nil {
		t.Fatal(err)
	}
	if got, err = wire.ReadHandover(folder); err != nil || got.Rows == nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	equal(t, got.Rows, h.Rows)
}

// TestHandoverInOneFile holds that the rows of a build that writes them with the samples are read, unless newer ones were written after
// them.
func TestHandoverInOneFile(t *testing.T) {
	folder := t.TempDir()
	random := rand.New(rand.NewPCG(3, 4))
	last, rows := sample(random, 2), sample(random, 1)
	content, err := googleproto.Marshal(&proto.Handover{Last: wire.FromSample(last, false), Rows: wire.FromSample(rows, true)})
	if err != nil {
		t.Fatal(err)
	}
	text := binary.LittleEndian.AppendUint32(nil, uint32(len(content))) //nolint:gosec // small
	text = append(binary.LittleEndian.AppendUint32(text, crc32.ChecksumIEEE(content)), content...)
	if err := os.WriteFile(filepath.Join(folder, "samples"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := wire.ReadHandover(folder)
	if err != nil || h.Rows == nil {
		t.Fatalf("%+v, %v", h, err)
	}
	equal(t, h.Rows, rows)
	w, err := wire.OpenHandover(folder)
	if err != nil {
		t.Fatal(err)
	}
	var memory []byte
	newer := sample(random, 3)
	if err := errors.Join(w.Write(wire.Handover{Last: sample(random, 3), Rows: newer}, &memory), w.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "samples"), text, 0o600); err != nil { // it was rolled back
		t.Fatal(err)
	}
	if h, err = wire.ReadHandover(folder); err != nil {
		t.Fatal(err)
	}
	equal(t, h.Rows, newer)
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
