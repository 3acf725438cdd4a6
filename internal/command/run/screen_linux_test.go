// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestLiveLine holds that the live line ends at a word on terminals of four widths.
func TestLiveLine(t *testing.T) {
	s, before := &procstats.Sample{}, &procstats.Sample{}
	for id, value := range map[procstats.ID]float64{
		procstats.CgroupMemoryCurrent: 300 << 20, procstats.CgroupMemoryPeak: 512 << 20, procstats.CgroupIORead: 40 << 20,
		procstats.CgroupIOWrite: 7 << 20, procstats.CgroupPidsCurrent: 12,
	} {
		s.SetNumber(id, value)
	}
	words := liveLine(s, procstats.History{Previous: before}, 754*time.Second)
	words[0] = "tacho " + words[0]
	const short = "tacho 12m34s · peak 512 MiB · read 40 MiB · written 7 MiB"
	for columns, want := range map[uint16]string{
		20: "tacho 12m34s", 60: short, 80: short + " · 12 threads", 120: short + " · 12 threads", 200: short + " · 12 threads",
	} {
		master, terminal, err := pty.Open()
		must(t, err)
		must(t, pty.Setsize(terminal, &pty.Winsize{Rows: 24, Cols: columns}))
		(&screen{stderr: terminal, terminal: true}).draw(words)
		text := make([]byte, 1000)
		n := testkit.Value(master.Read(text))(t)
		got := strings.TrimSuffix(strings.TrimPrefix(string(text[:n]), "\r"), "\x1b[K\r")
		testkit.Equal(t, got, want, "%d columns", columns)
		_, _ = master.Close(), terminal.Close() // nothing is left in them
	}
}
