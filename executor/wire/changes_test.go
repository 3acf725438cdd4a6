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
func send(t *testing.T, m *proto.SampleResponse) (received *proto.SampleResponse, size int) {
	t.Helper()
	encoded := testkit.Value(googleproto.Marshal(m))(t)
	received = &proto.SampleResponse{}
	testkit.Must(t, googleproto.Unmarshal(encoded, received))
	return received, len(encoded)
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

// TestChanges holds that whoever reads changes sees what a reader of whole samples sees.
func TestChanges(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 0))
		for _, rows := range []bool{true, false} {
			writer, reader := wire.Writer{Rows: rows, Changes: true}, wire.Reader{}
			for i := range 20 {
				s := sample(random, i+1)
				whole, _ := send(t, &proto.SampleResponse{Sample: wire.FromSample(s, rows)})
				message, _ := send(t, writer.Write(s))
				equal(t, reader.Read(message), wire.ToSample(whole.GetSample()))
			}
		}
	}
}

// TestWithoutChanges holds that a caller that does not keep the sample before is sent whole ones.
func TestWithoutChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	writer := wire.Writer{Rows: true}
	for i := range 20 {
		s := sample(random, i+1)
		message, _ := send(t, writer.Write(s))
		if message.GetChanges() {
			t.Fatal("changes, without being asked for")
		}
		equal(t, wire.ToSample(message.GetSample()), s)
	}
}

// TestUnchanged holds that a task that does nothing is told in few bytes.
func TestUnchanged(t *testing.T) {
	s := &procstats.Sample{Stamp: procstats.Stamp{Mono: 1, Wall: time.Unix(0, 1)}}
	for id := range procstats.ID(100) {
		s.Task.Put(procstats.AbsentReading(id+1, "blkio.throttle.io_serviced_recursive has counted nothing"))
	}
	writer, reader := wire.Writer{Rows: true, Changes: true}, wire.Reader{}
	first, whole := send(t, writer.Write(s))
	again, changes := send(t, writer.Write(s))
	equal(t, reader.Read(first), s)
	equal(t, reader.Read(again), s)
	if changes > whole/20 {
		t.Errorf("%d bytes for a whole sample, %d for no change", whole, changes)
	}
}

// TestChangesToNothing holds that a reader that has missed the sample before makes nothing up.
func TestChangesToNothing(t *testing.T) {
	reader := wire.Reader{}
	got := reader.Read(&proto.SampleResponse{Changes: true})
	if len(got.Task) != 0 || len(got.Processes) != 0 {
		t.Errorf("a sample of nothing: %v", got)
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

// FuzzReader holds that no message, and no sequence of two, makes a reader fall over.
func FuzzReader(f *testing.F) {
	random := rand.New(rand.NewPCG(2, 2))
	writer := wire.Writer{Rows: true, Changes: true}
	var seeds [2][]byte
	for i := range seeds {
		seeds[i], _ = googleproto.Marshal(writer.Write(sample(random, i+1)))
	}
	f.Add(seeds[0], seeds[1])
	f.Add(seeds[1], seeds[0])
	f.Fuzz(func(t *testing.T, first, second []byte) {
		reader := wire.Reader{}
		for _, encoded := range [][]byte{first, second} {
			m := &proto.SampleResponse{}
			if googleproto.Unmarshal(encoded, m) != nil {
				return
			}
			s := reader.Read(m)
			for i := 1; i < len(s.Task); i++ {
				if s.Task[i-1].ID() >= s.Task[i].ID() {
					t.Fatalf("readings out of order: %v", s.Task)
				}
			}
		}
	})
}
