// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// ProcIO is /proc/PID/io, proc_pid_io(5), in bytes.
type ProcIO struct {
	Rchar, Wchar, ReadBytes, WriteBytes, CancelledWriteBytes int64
}
