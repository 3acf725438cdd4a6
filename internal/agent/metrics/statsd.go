// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/procstats"
)

// maxPacket is what goes into an Ethernet frame with IPv6 and UDP headers.
const maxPacket = 1432

// keptRounds is for how many rounds a counter is remembered that has no sample: that of a task that is being started again, or that was not
// read for a while, goes on from there.
const keptRounds = 600

// Statsd sends families to a statsd server: one line per sample, the values of its labels after the name, gauges as
// g, and of counters what they grew as c.
type Statsd struct {
	collector *Collector
	telemetry func() config.Telemetry
	round     uint64
	last      map[string]sent
}

// sent is a counter in the last round that had it.
type sent struct {
	value float64
	round uint64
}

// NewStatsd returns a sender that has sent nothing. telemetry returns the configuration, which can change.
func NewStatsd(c *Collector, telemetry func() config.Telemetry) *Statsd {
	return &Statsd{collector: c, telemetry: telemetry, last: map[string]sent{}}
}

// Run sends once per collection interval, at most once a second, until ctx is done, to the address that is
// configured at the time; while there is none it sends nothing. failed is called with an error, once until sending works
// again.
func (s *Statsd) Run(ctx context.Context, failed func(error)) {
	broken := false
	for {
		telemetry := s.telemetry()
		if telemetry.StatsdAddress != "" {
			err := s.send(ctx, telemetry.StatsdAddress)
			if err != nil && !broken {
				failed(err)
			}
			broken = err != nil
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(time.Second, telemetry.CollectionInterval)):
		}
	}
}

func (s *Statsd) send(ctx context.Context, address string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", address)
	if err != nil {
		return fmt.Errorf("statsd: %w", err)
	}
	defer conn.Close()
	for _, packet := range s.packets(s.collector.Gather(ctx)) {
		if _, err := conn.Write(packet); err != nil {
			return fmt.Errorf("statsd: %w", err)
		}
	}
	return nil
}

// packets returns the lines of all samples, in packets of at most maxPacket bytes.
func (s *Statsd) packets(families []exposition.Family) [][]byte {
	var list [][]byte
	var packet []byte
	seen := make(map[string]sent, len(s.last))
	s.round++
	for i := range families {
		for _, sample := range families[i].Samples {
			line := s.line(&families[i], sample, seen)
			if len(packet) > 0 && len(packet)+len(line) > maxPacket {
				list, packet = append(list, packet), nil
			}
			packet = append(packet, line...)
		}
	}
	for key, c := range s.last {
		if _, again := seen[key]; !again && s.round-c.round < keptRounds {
			seen[key] = c
		}
	}
	s.last = seen
	if len(packet) > 0 {
		list = append(list, packet)
	}
	return list
}

func (s *Statsd) line(f *exposition.Family, sample exposition.Sample, seen map[string]sent) []byte {
	key := statsdKey(f.Name, sample.Labels)
	value, kind := sample.Value, "|g\n"
	if f.Type == exposition.Counter {
		kind = "|c\n"
		seen[key] = sent{value, s.round}
		if before, ok := s.last[key]; !ok {
			value = 0 // how much of it is new is not known
		} else if value >= before.value {
			value -= before.value
		}
	}
	line := append([]byte(key), ':')
	if kind == "|g\n" && value < 0 {
		// A sign means a change; a negative value is a change from 0.
		line = append(append(line, "0|g\n"...), key...)
		line = append(line, ':')
	}
	return append(procstats.AppendNumber(line, value), kind...)
}

// statsdKey is tacho.task.NAME.VALUE.VALUE, with nothing in it that means something to statsd.
func statsdKey(name string, labels *exposition.Labels) string {
	var key strings.Builder
	key.WriteString(strings.Replace(strings.Replace(name, "_", ".", 1), "_", ".", 1))
	for _, p := range labels.Pairs {
		key.WriteByte('.')
		key.WriteString(strings.Map(func(r rune) rune {
			if strings.ContainsRune(":|@#. \n\t/", r) {
				return '_'
			}
			return r
		}, p.Value))
	}
	return key.String()
}
