// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// collections is how often the executor has read its task, as a sample says.
func collections(t testing.TB, s *procstats.Sample) int {
	t.Helper()
	reading, _ := s.Task.Get(procstats.ExecutorCollections)
	n, ok := reading.Number()
	if !ok {
		t.Fatalf("no count of collections: %s", reading.Reason())
	}
	return int(n)
}

// stream opens a stream of samples that ends with the test.
func (f *fixture) stream(interval time.Duration, rows bool) *client.StatsStream {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	f.t.Cleanup(cancel)
	stream := testkit.Value(f.Stats(ctx, interval, rows))(f.t)
	return stream
}

func receive(t testing.TB, s *client.StatsStream) *procstats.Sample {
	t.Helper()
	sample := testkit.Value(s.Recv())(t)
	return sample
}

// The first sample comes at once, the others at the multiples of the interval on the clock that all executors share,
// or a number of tenths after them.
func TestStatsCadence(t *testing.T) {
	const interval = 100 * time.Millisecond
	f := start(t)
	f.runSleeper()
	began := time.Now()
	stream := f.stream(interval, true)
	first := receive(t, stream)
	if took := time.Since(began); took > interval {
		t.Errorf("the first sample came after %s", took)
	}
	last, tenths := first, map[time.Duration]int{}
	for range 10 {
		s := receive(t, stream)
		if s.Mono <= last.Mono {
			t.Errorf("a sample at %s comes after one at %s", s.Mono, last.Mono)
		}
		tenths[s.Mono%interval/(interval/10)]++
		last = s
	}
	most := 0
	for phase := range tenths {
		most = max(most, tenths[phase]+tenths[(phase+1)%10]) // some come late
	}
	if most < 7 { // the machine may be busy
		t.Errorf("samples by the tenth of the interval that they were taken in: %v, want them in the same", tenths)
	}
	if span := last.Mono - first.Mono; span < 9*interval || span > 20*interval {
		t.Errorf("ten intervals of %s took %s", interval, span)
	}
}

// Streams and one-shot readers share collections.
func TestStatsShare(t *testing.T) {
	const interval, streams, ticks = 200 * time.Millisecond, 20, 5
	f := start(t)
	f.runSleeper()
	before := testkit.Value(f.Sample(t.Context(), 0, true))(t)
	var reading sync.WaitGroup
	for range streams {
		stream := f.stream(interval, true)
		reading.Go(func() {
			for range ticks {
				if _, err := stream.Recv(); err != nil {
					t.Error(err)
				}
				if _, err := f.Sample(t.Context(), interval, true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	reading.Wait()
	after := testkit.Value(f.Sample(t.Context(), 0, true))(t)
	elapsed := int((after.Mono - before.Mono) / interval)
	made := collections(t, after) - collections(t, before)
	t.Logf("%d collections for %d readers over %d intervals", made, 2*streams, elapsed)
	// One more for each end of the window, and one where the first samples straddle a tick.
	if made > elapsed+4 {
		t.Errorf("%d collections in %d intervals", made, elapsed)
	}
}

// A thousand one-shot readers in a second share what is younger than they ask for.
func TestSampleAge(t *testing.T) {
	f := start(t)
	f.runSleeper()
	const readers = 1000
	before := testkit.Value(f.Sample(t.Context(), 0, false))(t)
	began := time.Now()
	var reading sync.WaitGroup
	for range 10 {
		reading.Go(func() {
			for range readers / 10 {
				s, err := f.Sample(t.Context(), time.Second, false)
				if err != nil {
					t.Error(err)
					return
				}
				if age := kernel.Now().Mono - s.Mono; age > 3*time.Second {
					t.Errorf("a sample is %s old", age)
				}
			}
		})
	}
	reading.Wait()
	took := time.Since(began)
	after := testkit.Value(f.Sample(t.Context(), 0, false))(t)
	made := collections(t, after) - collections(t, before)
	t.Logf("%d readers in %s: %d collections", readers, took, made)
	if most := 2 + int(took/time.Second); made > most {
		t.Errorf("%d collections in %s, want at most %d", made, took, most)
	}
}

// Nobody asks, so nothing is read.
func TestNothingIsSampled(t *testing.T) {
	f := start(t)
	f.run("mkfifo go; echo ready; read x < go")
	f.expect("ready")
	<-time.After(500 * time.Millisecond)
	sample := testkit.Value(f.Sample(t.Context(), 0, false))(t)
	// The baseline, and this one, which counts itself only afterwards.
	if made := collections(t, sample); made > 2 {
		t.Errorf("%d collections were made", made)
	}
	f.write("go", "\n")
	_, final := f.wait()
	if final.Samples > 4 {
		t.Errorf("the record counts %d collections", final.Samples)
	}
}

// A reader that is slow gets the newest sample, and not those that it missed.
func TestStatsSlowReader(t *testing.T) {
	const interval = 10 * time.Millisecond
	f := start(t)
	// Messages of which each has something in it, though nothing changes.
	f.run("for i in $(seq 300); do sleep 1000 & done; echo ready; wait")
	f.expect("ready")
	stream := f.stream(interval, true)
	receive(t, stream)
	<-time.After(2 * time.Second)
	now := kernel.Now().Mono
	held := 0
	for receive(t, stream).Mono < now {
		held++
	}
	// 200 were due. The two ends of the connection hold at most 64 KiB each, and one on each side.
	t.Logf("%d samples were on their way", held)
	if held > 60 {
		t.Errorf("%d old samples before a new one", held)
	}
}

func TestStatsEnd(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.run("mkfifo go; echo ready; read x < go")
	f.expect("ready")
	stream := f.stream(time.Hour, false)
	receive(t, stream)
	f.write("go", "\n")
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end of the task: %v", err)
	}
	// The last sample of an ended task is its final one, however often it is asked for.
	one := testkit.Value(f.Sample(t.Context(), 0, false))(t)
	two := testkit.Value(f.Sample(t.Context(), 0, false))(t)
	if one.Mono != two.Mono {
		t.Errorf("samples of an ended task were taken at %s and %s", one.Mono, two.Mono)
	}
}

func TestStatsRefused(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.runSleeper()
	for _, interval := range []time.Duration{-1, 0, time.Millisecond} {
		stream := f.stream(interval, false)
		if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("interval %s: %v", interval, err)
		}
	}
}

// Rows and what ended add up to the total in every sample.
func TestRowsAddUp(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.run("echo ready; while :; do /bin/true; done", place, func(r *proto.LaunchRequest) {
			r.Record.IntervalNs = int64(50 * time.Millisecond)
		})
		f.expect("ready")
		stream := f.stream(100*time.Millisecond, true)
		var window procstats.Window
		for range 10 {
			window.Add(receive(t, stream))
		}
		must(t, f.Stop(t.Context(), 9, 0))
		_, final := f.wait()
		p := final.Processes
		if p == nil || p.TotalCPUSeconds == nil || p.UnattributedCPUSeconds == nil || p.Exited.CPUSeconds == nil {
			t.Fatalf("processes of the record: %+v", p)
		}
		sum := *p.Exited.CPUSeconds + *p.UnattributedCPUSeconds
		for _, row := range p.Rows {
			seconds, _ := row.Measurements[procstats.ProcessCPU.String()].(float64)
			sum += seconds
		}
		if diff := sum - *p.TotalCPUSeconds; diff > 1e-6 || diff < -1e-6 {
			t.Errorf("rows, exited and unattributed add up to %v, the total is %v", sum, *p.TotalCPUSeconds)
		}
	})
}

// TestLastReadingOfStream is about tasks that are sampled for no record, as a driver's are: what a stream was sent
// last is in the record of an end that is not a success.
func TestLastReadingOfStream(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string]bool{"totals": false, "with rows": true} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.run("echo ready; exec sleep 1000", func(r *proto.LaunchRequest) { r.Record.IntervalNs = 0 })
			f.expect("ready")
			stream := f.stream(50*time.Millisecond, rows)
			receive(t, stream)
			sample := receive(t, stream)
			must(t, f.Stop(t.Context(), unix.SIGKILL, 0))
			_, final := f.wait()
			last := final.Diagnosis.LastReading
			if last == nil || last.MemoryBytes == nil || last.Cores == nil || last.AgeSeconds > time.Since(sample.Wall).Seconds() {
				t.Fatalf("last reading %+v of %q", last, final.Sentence())
			}
			if !strings.Contains(final.Diagnosis.Operator, " before: ") {
				t.Errorf("operator: %q", final.Diagnosis.Operator)
			}
		})
	}
}
