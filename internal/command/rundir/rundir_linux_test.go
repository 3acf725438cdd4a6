// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rundir

import (
	"os"
	"testing"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

func TestUpdateState(t *testing.T) {
	host := kernel.HostFS()
	boot := testkit.Value(kernel.BootID(host))(t)
	self := testkit.Value(kernel.Identify(host, os.Getpid()))(t)
	live := record.Process{PID: self.PID, StartTicks: self.Start}
	for _, test := range []struct {
		name   string
		record record.Record
		want   record.State
	}{
		{"the executor lives", record.Record{State: record.Running, Origin: record.Origin{BootID: boot, Executor: &live}}, record.Running},
		{"the process lives and there is no executor", record.Record{State: record.Running, Origin: record.Origin{BootID: boot, PID: live.PID, StartTicks: live.StartTicks}}, record.Running},
		{"another process has its PID", record.Record{State: record.Running, Origin: record.Origin{BootID: boot, Executor: &record.Process{PID: live.PID, StartTicks: live.StartTicks + 1}}}, record.Lost},
		{"the machine was booted again", record.Record{State: record.Running, Origin: record.Origin{BootID: "another", Executor: &live}}, record.Lost},
		{"only the task's process is left", record.Record{State: record.Running, Origin: record.Origin{BootID: boot, Executor: &record.Process{PID: live.PID, StartTicks: 1}, PID: live.PID, StartTicks: live.StartTicks}}, record.Lost},
		{"it is in another PID namespace", record.Record{State: record.Running, Origin: record.Origin{BootID: boot, Executor: &record.Process{PID: live.PID, StartTicks: 1, PIDNamespace: "pid:[1]"}}}, record.Running},
		{"it was in another PID namespace", record.Record{State: record.Running, Origin: record.Origin{BootID: "another", Executor: &record.Process{PID: live.PID, StartTicks: 1, PIDNamespace: "pid:[1]"}}}, record.Lost},
		{"it was in this PID namespace", record.Record{State: record.Running, Origin: record.Origin{BootID: boot, Executor: &record.Process{PID: live.PID, StartTicks: 1, PIDNamespace: kernel.PIDNamespace(host)}}}, record.Lost},
		{"it had no process yet", record.Record{State: record.Running, Origin: record.Origin{BootID: boot}}, record.Lost},
		{"it ended", record.Record{State: record.Exited}, record.Exited},
	} {
		UpdateState(&test.record, host)
		testkit.Equal(t, test.record.State, test.want, "%s", test.name)
	}
}
