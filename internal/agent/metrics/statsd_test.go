// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/exposition"
)

func TestStatsdLines(t *testing.T) {
	s := NewStatsd(newTestCollector(newFake()), nil)
	labels := exposition.NewLabels(exposition.Label{Name: "host", Value: "a.b:c"}, exposition.Label{Name: "task", Value: "web"}, exposition.Label{Name: "empty", Value: ""})
	lines := func(counter, gauge float64) string {
		packets := s.packets([]exposition.Family{
			{Name: "tacho_task_exits_total", Type: exposition.Counter, Samples: []exposition.Sample{{Labels: labels, Value: counter}}},
			{Name: "tacho_task_memory_bytes", Samples: []exposition.Sample{{Labels: labels, Value: gauge}}},
		})
		if len(packets) != 1 {
			t.Fatalf("%d packets", len(packets))
		}
		return string(packets[0])
	}
	got := lines(5, 1) + lines(7.5, -2) + lines(1, 3)
	want := "tacho.task.exits_total.a_b_c.web:0|c\ntacho.task.memory_bytes.a_b_c.web:1|g\n" +
		"tacho.task.exits_total.a_b_c.web:2.5|c\ntacho.task.memory_bytes.a_b_c.web:0|g\ntacho.task.memory_bytes.a_b_c.web:-2|g\n" +
		"tacho.task.exits_total.a_b_c.web:1|c\ntacho.task.memory_bytes.a_b_c.web:3|g\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestStatsdGap has a counter without a sample for a while: what it grew meanwhile is not lost. It is forgotten in the end.
func TestStatsdGap(t *testing.T) {
	s := NewStatsd(newTestCollector(newFake()), nil)
	labels := exposition.NewLabels(exposition.Label{Name: "task", Value: "web"})
	with := func(value float64) string {
		packets := s.packets([]exposition.Family{{
			Name: "tacho_task_exits_total", Type: exposition.Counter, Samples: []exposition.Sample{{Labels: labels, Value: value}},
		}})
		return string(packets[0])
	}
	with(5)
	s.packets(nil)
	if got, want := with(8), "tacho.task.exits_total.web:3|c\n"; got != want {
		t.Errorf("after a gap: %q, want %q", got, want)
	}
	for range keptRounds {
		s.packets(nil)
	}
	if len(s.last) != 0 {
		t.Errorf("%d counters are remembered", len(s.last))
	}
}

// TestStatsdRun listens for what is sent.
func TestStatsdRun(t *testing.T) {
	listener, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	f := newFake()
	f.telemetry.StatsdAddress = listener.LocalAddr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		NewStatsd(newTestCollector(f), func() config.Telemetry { return f.telemetry }).Run(ctx, func(err error) { t.Error(err) })
	}()
	defer func() { cancel(); <-done }()
	packet := make([]byte, 2*maxPacket)
	if err := listener.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for seen := false; !seen; {
		n, _, err := listener.ReadFrom(packet)
		if err != nil {
			t.Fatal(err)
		}
		if n > maxPacket || packet[n-1] != '\n' {
			t.Errorf("%d bytes", n)
		}
		seen = strings.Contains(string(packet[:n]), "tacho.task.memory_charged_bytes.host1.aaaaaaaa.example.default.web.cache:10|g\n")
	}
}

// TestStatsdUnreachable holds that a failure is told once.
func TestStatsdUnreachable(t *testing.T) {
	f := newFake()
	f.telemetry.StatsdAddress, f.telemetry.CollectionInterval = "256.0.0.1:1", time.Nanosecond
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	told := 0
	NewStatsd(newTestCollector(f), func() config.Telemetry { return f.telemetry }).Run(ctx, func(error) { told++ })
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}
