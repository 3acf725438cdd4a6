// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
)

// TestDevices holds that devices are shown on request only, and that nobody adds up layers.
func TestDevices(t *testing.T) {
	r := &record.Record{Surroundings: record.Surroundings{Devices: []record.Device{
		{Number: "252:0", Name: "dm-0", Layer: true, WrittenBytes: 1 << 20, Writes: 3},
		{Number: "8:0", Name: "sda", WrittenBytes: 1 << 20, Writes: 3},
		{Number: "7:9", ReadBytes: 4096, Reads: 1},
	}}}
	const want = `
Storage by device
  DEVICE  NUMBER   READ  WRITTEN  READS  WRITES
  dm-0 *  252:0     0 B    1 MiB      0       3
  sda     8:0       0 B    1 MiB      0       3
  –       7:9     4 KiB      0 B      1       0
  * passes its I/O on to other devices, which count it again
`
	if text := NewPage(cli.Palette{}, "x", r).Render(true); !strings.Contains(text, want) {
		t.Errorf("%s\nwant in it\n%s", text, want)
	}
	if text := NewPage(cli.Palette{}, "x", r).Render(false); strings.Contains(text, "sda") {
		t.Error(text)
	}
}
