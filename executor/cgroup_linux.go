// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"errors"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/procstats"
)

// limitedGroup makes or takes the task's cgroup with its limits, or without any if they cannot be held and are
// optional.
func (e *Executor) limitedGroup(request *proto.LaunchRequest) (*cgroup.Group, []record.Limit, error) {
	group, limits, err := e.groupWith(request, request.GetLimits())
	if err == nil || !request.GetLimitsOptional() || request.GetLimits() == nil {
		return group, limits, err
	}
	group, limits, again := e.groupWith(request, nil)
	if again != nil {
		return nil, nil, again
	}
	group.Notes = append(group.Notes, "limits not enforced: "+err.Error())
	return group, limits, nil
}

// groupWith makes or takes the task's cgroup and sets limits. On an error nothing is left behind.
func (e *Executor) groupWith(
	request *proto.LaunchRequest, wanted *proto.Limits,
) (*cgroup.Group, []record.Limit, error) {
	group, err := e.makeGroup(request, wanted)
	if err != nil {
		return nil, nil, err
	}
	limits, err := group.SetLimits(e.host, wanted)
	if err = errors.Join(err, failpoint.Err("executor.launch.cgroup")); err != nil {
		return nil, nil, errors.Join(err, group.Remove())
	}
	return group, limits, nil
}

// makeGroup makes or takes the task's cgroup as the request says, with the cpuset and cpu controllers if there are
// limits for them.
func (e *Executor) makeGroup(request *proto.LaunchRequest, wanted *proto.Limits) (*cgroup.Group, error) {
	placement := request.GetCgroup()
	switch placement.GetMode() {
	case proto.CgroupPlacement_MODE_NONE:
		return cgroup.None("no cgroup was requested"), nil
	case proto.CgroupPlacement_MODE_GIVEN:
		return cgroup.Use(e.host, procstats.Cgroup{
			V2: placement.GetV2(), V1: placement.GetV1(), Shared: placement.GetShared(),
		})
	case proto.CgroupPlacement_MODE_UNSPECIFIED, proto.CgroupPlacement_MODE_AUTO:
	}
	return cgroup.Create(cgroup.Options{
		FS: e.host, ID: request.GetId(), Parent: placement.GetParent(),
		Cpuset:    wanted.GetCpuset() != "",
		CPU:       wanted != nil && (wanted.CpuCores != nil || wanted.CpuWeight != nil || wanted.CpuShares != nil),
		CpusetDir: placement.GetV1()["cpuset"],
		Planned: func(c procstats.Cgroup) {
			if err := e.writeTask(request, procstats.ProcessID{}, c, true); err != nil {
				e.log.Error("write the address", "error", err)
			}
			failpoint.At("executor.launch.planned")
		},
	})
}

func limitsToWire(limits []record.Limit) []*proto.EffectiveLimit {
	var list []*proto.EffectiveLimit
	for _, l := range limits {
		list = append(list, &proto.EffectiveLimit{
			Name: l.Name, Requested: l.Requested, Effective: l.Effective, Where: l.Where,
			RequestedText: l.RequestedText, EffectiveText: l.EffectiveText,
		})
	}
	return list
}
