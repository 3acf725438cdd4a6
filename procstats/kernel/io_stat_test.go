// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import "testing"

// TestIOStatOfDevicesThatGo holds that sums never fall: the line of a device goes with the device.
func TestIOStatOfDevicesThatGo(t *testing.T) {
	s := NewIOStat(NewBlockDevices(FS{}))
	for _, step := range []struct {
		what, data  string
		read, wrote float64
		invalid     bool
	}{
		{"nothing", "", 0, 0, false},
		{"two disks", "8:0 rbytes=10 wbytes=1\n8:16 rbytes=100 wbytes=2\n", 110, 3, false},
		{"one goes, the other reads on", "8:0 rbytes=15 wbytes=1\n", 115, 3, false},
		{"a file that is cut short", "8:0 rbytes=20 wby", 0, 0, true},
		{"a number that is none", "8:0 rbytes=x wbytes=1\n", 0, 0, true},
		{"as before", "8:0 rbytes=20 wbytes=1\n", 120, 3, false},
		{"another disk has its number", "8:0 rbytes=20 wbytes=1\n8:16 rbytes=7 wbytes=0\n", 127, 3, false},
		{"and again", "8:0 rbytes=20 wbytes=1\n8:16 rbytes=3 wbytes=5\n", 130, 8, false},
		{"all go", "", 130, 8, false},
	} {
		fields := []Field{{Key: "rbytes"}, {Key: "wbytes"}}
		s.Parse([]byte(step.data), fields)
		invalid := fields[0].State == FieldInvalid && fields[1].State == FieldInvalid
		if invalid != step.invalid || !invalid && (fields[0].Value != step.read || fields[1].Value != step.wrote) {
			t.Errorf("%s: %+v, want %v and %v, invalid: %v", step.what, fields, step.read, step.wrote, step.invalid)
		}
	}
}

// BenchmarkIOStat is a reading of a file with two devices, which allocates nothing.
func BenchmarkIOStat(b *testing.B) {
	s := NewIOStat(NewBlockDevices(FS{}))
	data := []byte("8:0 rbytes=15 wbytes=1 rios=1 wios=1 dbytes=0 dios=0\n8:16 rbytes=15 wbytes=1 rios=1 wios=1 dbytes=0 dios=0\n")
	fields := []Field{{Key: "rbytes"}, {Key: "wbytes"}, {Key: "rios"}, {Key: "wios"}}
	b.ReportAllocs()
	for b.Loop() {
		s.Parse(data, fields)
	}
}
