// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package reader

import (
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// FromReaped returns the message of what an executor has reaped.
func FromReaped(r source.Reaped) *proto.Reaped {
	return &proto.Reaped{
		Processes: r.Processes, CpuNs: int64(r.CPU), MaxRssBytes: r.MaxRSS, Minflt: r.Minflt, Majflt: r.Majflt,
		Nvcsw: r.Nvcsw, Nivcsw: r.Nivcsw, InblockBytes: r.Inblock, OublockBytes: r.Oublock,
		Rchar: r.IO.Rchar, Wchar: r.IO.Wchar, ReadBytes: r.IO.ReadBytes, WriteBytes: r.IO.WriteBytes,
		CancelledWriteBytes: r.IO.CancelledWriteBytes, IoMissed: r.IOMissed,
		Outside: r.Outside, Watched: r.Watched, PeakRssBytes: r.PeakRSS,
	}
}

// ToReaped returns what an executor has reaped, as it said at a time.
func ToReaped(m *proto.Reaped, at procstats.Stamp) source.Reaped {
	return source.Reaped{
		CPU: time.Duration(m.GetCpuNs()), MaxRSS: m.GetMaxRssBytes(), Minflt: m.GetMinflt(), Majflt: m.GetMajflt(),
		Nvcsw: m.GetNvcsw(), Nivcsw: m.GetNivcsw(), Inblock: m.GetInblockBytes(), Oublock: m.GetOublockBytes(),
		IO: kernel.ProcIO{
			Rchar: m.GetRchar(), Wchar: m.GetWchar(), ReadBytes: m.GetReadBytes(), WriteBytes: m.GetWriteBytes(),
			CancelledWriteBytes: m.GetCancelledWriteBytes(),
		},
		IOMissed: m.GetIoMissed(), Processes: m.GetProcesses(), At: at,
		Outside: m.GetOutside(), Watched: m.GetWatched(), PeakRSS: m.GetPeakRssBytes(),
	}
}
