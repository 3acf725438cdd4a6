// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestPacked holds that samples are unpacked as they were packed, by one packer after longer and shorter ones.
func TestPacked(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var packer wire.Packer
	var content []byte
	for i := range 100 {
		s, rows := sample(random, i+1), random.IntN(2) == 0
		if random.IntN(3) == 0 {
			s.Checked = s.Stamp
		}
		var err error
		if content, err = packer.Append(content[:0], s, rows); err != nil {
			t.Fatal(err)
		}
		got, err := wire.Unpack(content)
		testkit.Must(t, err)
		want := *s
		if !rows {
			want.Omitted, want.Processes = s.Omitted+len(s.Processes), nil
		}
		equal(t, got, &want)
	}
}

// TestPackedText holds that text in no encoding is packed all the same.
func TestPackedText(t *testing.T) {
	var packer wire.Packer
	s := &procstats.Sample{}
	s.SetAbsent(procstats.CgroupCPUUsage, "read \xff: gone")
	s.AddProcess(procstats.ProcessID{PID: 1}).Command = "\xff"
	content := testkit.Value(packer.Append(nil, s, true))(t)
	got := testkit.Value(wire.Unpack(content))(t)
	if r, _ := got.Task.Get(procstats.CgroupCPUUsage); r.Reason() != "read \ufffd: gone" || got.Processes[0].Command != "\xff" {
		t.Errorf("%q, %q", r.Reason(), got.Processes[0].Command)
	}
}
