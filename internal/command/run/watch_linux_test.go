// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	docker = "3f2a9c1d77e03f2a9c1d77e03f2a9c1d77e03f2a9c1d77e03f2a9c1d77e03f2a"
	pod    = "aaaa9c1d77e03f2a9c1d77e03f2a9c1d77e03f2a9c1d77e03f2a9c1d77e03f2a"
	alloc  = "5a1b2c3d-1111-2222-3333-444455556666"
)

// TestFindWatched looks for groups as they are made by those that make them, on a made host: PID, parent and path in v2.
func TestFindWatched(t *testing.T) {
	t.Parallel()
	all := map[int]running{}
	for pid, p := range []struct {
		parent int
		path   string
	}{
		1:  {0, "init.scope"},
		2:  {1, "system.slice/nginx.service"},
		3:  {2, "system.slice/nginx.service/workers"},
		4:  {1, "system.slice/docker-" + docker + ".scope/init"},
		5:  {1, "kubepods.slice/kubepods-pod1.slice/cri-containerd-" + pod + ".scope"},
		6:  {1, "system.slice/slurmstepd.scope/job_7/step_0/user/task_0"},
		7:  {1, "system.slice/slurmstepd.scope/job_7/step_batch/user/task_0"},
		8:  {1, "system.slice/slurmstepd.scope/job_71/step_0/user/task_0"},
		9:  {1, "nomad.slice/share.slice/" + alloc + ".web.scope"},
		10: {1, "nomad.slice/share.slice/" + alloc + ".db.scope"},
		11: {1, "user.slice/session-1.scope"},
		12: {11, "user.slice/session-1.scope"},
		13: {1, "lxc.payload.mail/ns"},
		14: {1, "a/nginx.service"},
		15: {1, "b/twice.service"},
		16: {1, "c/twice.service"},
	} {
		if pid > 0 {
			id := procstats.ProcessID{PID: pid, Start: uint64(pid)}
			all[pid] = newRunning(kernel.Identity{ProcessID: id, PPID: p.parent}, procstats.Cgroup{V2: "/made/" + p.path})
		}
	}
	for _, test := range []struct{ flag, value, group, refusal string }{
		{"unit", "nginx", "", "several: /made/a/nginx.service and /made/system.slice/nginx.service"},
		{"cgroup", "/made/system.slice/nginx.service", "system.slice/nginx.service", ""},
		{"cgroup", "/made/system.slice/nginx.service/", "system.slice/nginx.service", ""},
		{"cgroup", "/made/system.slice/nginx", "", "no process belongs to it here"},
		{"container", docker[:12], "system.slice/docker-" + docker + ".scope", ""},
		{"container", docker, "system.slice/docker-" + docker + ".scope", ""},
		{"container", "3f2", "", "no process belongs to it here"},
		{"container", pod[:8], "kubepods.slice/kubepods-pod1.slice/cri-containerd-" + pod + ".scope", ""},
		{"container", "mail", "lxc.payload.mail", ""},
		{"slurm", "7", "system.slice/slurmstepd.scope/job_7", ""},
		{"slurm", "7.batch", "system.slice/slurmstepd.scope/job_7/step_batch", ""},
		{"slurm", "7.1", "", "no process belongs to it here"},
		{"slurm", "x", "", "must be the number of a job"},
		{"alloc", alloc[:8] + "/web", "nomad.slice/share.slice/" + alloc + ".web.scope", ""},
		{"alloc", alloc[:8], "", "several"},
		{"alloc", alloc[:7] + "/web", "", "no process belongs to it here"},
		{"pid", "2", "system.slice/nginx.service", ""},
		{"pid", "3", "system.slice/nginx.service/workers", ""},
		{"pid", "12", "", ""}, // the shell that started it is in its group: a tree
		{"pid", "11", "user.slice/session-1.scope", ""},
		{"pid", "99", "", "no such process"},
		{"pid", "nginx", "", "no such process"},
		{"unit", "twice.service", "", "several"},
	} {
		w, err := chooseWatched(all, test.flag, test.value)
		name := test.flag + " " + test.value
		if test.refusal != "" {
			if err == nil || !strings.Contains(err.Error(), test.refusal) {
				t.Errorf("%s: %v, want %q", name, err, test.refusal)
			}
			continue
		}
		testkit.NoError(t, err)
		if test.group != "" {
			test.group = "/made/" + test.group
		}
		testkit.Equal(t, w.Cgroup.V2, test.group, "group of %s", name)
	}
	tree := descendants(all, 1)
	testkit.Equal(t, len(tree), len(all), "descendants of the first process")
	testkit.Equal(t, fmt.Sprint(descendants(all, 2)), "map[2:true 3:true]", "a tree")
}
