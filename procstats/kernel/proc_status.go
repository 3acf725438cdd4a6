// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import "bytes"

// Switches are the context switches of one thread, in /proc/PID/task/TID/status, proc_pid_status(5).
type Switches struct{ Voluntary, Involuntary uint64 }

// ParseSwitches finds both numbers, or none.
func ParseSwitches(data []byte) (Switches, error) {
	var s Switches
	found := 0
	for {
		line, rest, ok := cutLine(data)
		if !ok {
			break
		}
		data = rest
		key, value, _ := bytes.Cut(line, []byte(":\t"))
		number := &s.Voluntary
		switch string(key) {
		case "voluntary_ctxt_switches":
		case "nonvoluntary_ctxt_switches":
			number = &s.Involuntary
		default:
			continue
		}
		if *number, ok = parseKernelUint(value); !ok {
			return Switches{}, ErrFormat
		}
		found++
	}
	if found != 2 { //nolint:mnd // both
		return Switches{}, ErrFormat
	}
	return s, nil
}
