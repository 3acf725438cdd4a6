// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	googleproto "google.golang.org/protobuf/proto"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// equal compares samples by what they say.
func equal(t *testing.T, got, want *procstats.Sample) {
	t.Helper()
	same := cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b procstats.Reading) bool { return a == b })}
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Fatalf("sample (-want +got):\n%s", diff)
	}
}

// send passes a message through its encoding.
func send(t *testing.T, m *proto.Sample) *proto.Sample {
	t.Helper()
	received := &proto.Sample{}
	testkit.Must(t, googleproto.Unmarshal(testkit.Value(googleproto.Marshal(m))(t), received))
	return received
}

// reading is one of a few values, so that some are the same twice, and of every kind.
func reading(random *rand.Rand, id procstats.ID) procstats.Reading {
	switch random.IntN(5) {
	case 0:
		return procstats.AbsentReading(id, "not here")
	case 1:
		return procstats.TextReading(id, []string{"", "a", "not here"}[random.IntN(3)])
	default:
		return procstats.NumberReading(id, float64(random.IntN(3)))
	}
}

func readings(random *rand.Rand) procstats.Readings {
	var list procstats.Readings
	for id := range procstats.ID(6) {
		// The set of ids changes seldom.
		if random.IntN(12) > 0 {
			list.Put(reading(random, id+1))
		}
	}
	return list
}

func sample(random *rand.Rand, at int) *procstats.Sample {
	now := procstats.Stamp{Mono: time.Duration(at), Wall: time.Unix(0, int64(at))}
	s := &procstats.Sample{Stamp: now, Task: readings(random), Omitted: random.IntN(2)}
	s.SetRead(procstats.SourceID(1+random.IntN(3)), now)
	for pid := range 4 {
		if random.IntN(3) == 0 {
			continue
		}
		// A PID that is used again is another process.
		row := s.AddProcess(procstats.ProcessID{PID: pid + 1, Start: uint64(random.IntN(2))})
		row.PPID, row.Command, row.Readings = random.IntN(3), "c", readings(random)
	}
	return s
}

// TestSample holds that samples are received as they were sent.
func TestSample(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 40 {
		s, rows := sample(random, i+1), i%2 == 0
		want := *s
		if !rows {
			want.Omitted, want.Processes = s.Omitted+len(s.Processes), nil
		}
		equal(t, wire.ToSample(send(t, wire.FromSample(s, rows))), &want)
	}
}

// TestNumbersBeyondAll holds that a number that no build can have as an id is passed over, and not taken for its lower
// half.
func TestNumbersBeyondAll(t *testing.T) {
	of := func(id uint32, n float64) *proto.Reading {
		return &proto.Reading{Id: id, Value: &proto.Reading_Number{Number: n}}
	}
	list := []*proto.Reading{of(1, 1), of(1<<16-1, 2), of(1<<16+1, 3), of(1<<32-1, 4)}
	got := wire.ToSample(&proto.Sample{Task: list, Processes: []*proto.Process{{Readings: list}}})
	var want procstats.Sample
	want.Task.Put(procstats.NumberReading(1, 1))
	want.Task.Put(procstats.NumberReading(1<<16-1, 2))
	want.AddProcess(procstats.ProcessID{}).Readings = want.Task
	equal(t, got, &want)
}

// FuzzToSample holds that no message makes a reader fall over.
func FuzzToSample(f *testing.F) {
	random := rand.New(rand.NewPCG(2, 2))
	seed, _ := googleproto.Marshal(wire.FromSample(sample(random, 1), true))
	f.Add(seed)
	f.Fuzz(func(t *testing.T, encoded []byte) {
		m := &proto.Sample{}
		if googleproto.Unmarshal(encoded, m) != nil {
			return
		}
		s := wire.ToSample(m)
		for i := 1; i < len(s.Task); i++ {
			if s.Task[i-1].ID() >= s.Task[i].ID() {
				t.Fatalf("readings out of order: %v", s.Task)
			}
		}
	})
}

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
		got := testkit.Value(wire.Unpack(content))(t)
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
