// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
)

// limitsOf takes the limits off the wire; nil stands for none.
func limitsOf(l *proto.Limits) cgroup.Limits {
	if l == nil {
		return cgroup.Limits{}
	}
	limits := cgroup.Limits{
		MemoryMax: l.MemoryMaxBytes, MemoryHigh: l.MemoryHighBytes, MemorySwapMax: l.MemorySwapMaxBytes,
		MemoryOOMGroup: l.MemoryOomGroup, CPUQuota: l.CpuCores, CPUWeight: l.CpuWeight, CPUShares: l.CpuShares,
		Cpuset: l.GetCpuset(), PidsMax: l.PidsMax,
	}
	for _, io := range l.GetIo() {
		limits.IO = append(limits.IO, cgroup.IOLimit{
			Device: io.GetDevice(), ReadBytesPerSecond: io.ReadBytesPerSecond, WriteBytesPerSecond: io.WriteBytesPerSecond,
			ReadOperationsPerSecond: io.ReadOperationsPerSecond, WriteOperationsPerSecond: io.WriteOperationsPerSecond,
		})
	}
	return limits
}

func limitsToWire(limits []cgroup.Limit) []*proto.EffectiveLimit {
	var list []*proto.EffectiveLimit
	for _, l := range limits {
		list = append(list, &proto.EffectiveLimit{
			Name: l.Name, Requested: l.Requested, Effective: l.Effective, Where: l.Where,
			RequestedText: l.RequestedText, EffectiveText: l.EffectiveText,
		})
	}
	return list
}

func limitsToRecord(limits []cgroup.Limit) []record.Limit {
	var list []record.Limit
	for _, l := range limits {
		list = append(list, record.Limit(l))
	}
	return list
}
