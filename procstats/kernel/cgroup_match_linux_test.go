// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestMatchCgroups(t *testing.T) {
	root := t.TempDir()
	at := func(path string) string { return filepath.Join(root, path) }
	for _, dir := range []string{
		"unified/system.slice/a.service/sub", "unified/system.slice/b.timer", "unified/docker/1", "memory/system.slice/a.service",
		"memory/docker/2", "pids/docker/2", "host/docker/3", "host/docker/1",
	} {
		testkit.Must(t, os.MkdirAll(at(dir), 0o700))
	}
	testkit.Must(t, os.WriteFile(at("unified/docker/cgroup.procs"), nil, 0o600))
	mounts := []CgroupMount{
		{Point: at("unified"), Version: 2},
		{Point: at("memory"), Version: 1, Controllers: []string{"memory"}},
		{Point: at("pids"), Version: 1, Controllers: []string{"pids"}},
		{Point: at("host"), Version: 2},
	}
	for pattern, want := range map[string][]string{
		"system.slice/*.service":             {"/system.slice/a.service"},
		"/system.slice/*.service":            {"/system.slice/a.service"},
		"system.slice/a.service":             {"/system.slice/a.service"},
		"*/*.service/*":                      {"/system.slice/a.service/sub"},
		"docker/*":                           {"/docker/1", "/docker/2", "/docker/3"},
		"docker/[13]":                        {"/docker/1", "/docker/3"},
		at("host/docker/*"):                  {"/docker/1", "/docker/2", "/docker/3"},
		"docker/cgroup.procs":                nil,
		"nomad.slice/share.slice/*":          nil,
		"system.slice/a.service/sub/*/../..": {"/system.slice/a.service"},
	} {
		found := map[string]procstats.Cgroup{}
		MatchCgroups(mounts, pattern, found, &Looked{})
		testkit.Diff(t, pattern, want, slices.Sorted(maps.Keys(found)))
	}
	found := map[string]procstats.Cgroup{}
	looked := Looked{}
	MatchCgroups(mounts, "docker/*", found, &looked)
	MatchCgroups(mounts, "system.slice/*", found, &looked)
	testkit.Diff(t, "directories", map[string]procstats.Cgroup{
		"/docker/1": {V2: at("unified/docker/1")}, "/docker/3": {V2: at("host/docker/3")},
		"/docker/2":               {V1: map[string]string{"memory": at("memory/docker/2"), "pids": at("pids/docker/2")}},
		"/system.slice/a.service": {V2: at("unified/system.slice/a.service"), V1: map[string]string{"memory": at("memory/system.slice/a.service")}},
		"/system.slice/b.timer":   {V2: at("unified/system.slice/b.timer")},
	}, found)
	testkit.Must(t, os.Mkdir(at("pids/beside"), 0o700)) // where no pattern looks
	for _, change := range []func(string) error{func(dir string) error { return os.Mkdir(dir, 0o700) }, os.Remove} {
		testkit.Diff(t, "changed", false, looked.Changed())
		testkit.Must(t, change(at("pids/docker/4")))
		testkit.Diff(t, "changed", true, looked.Changed())
		looked = Looked{}
		MatchCgroups(mounts, "docker/*", found, &looked)
	}
}

func TestGroupNames(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, want := range map[string]string{
		"docker-" + id + ".scope": id, "cri-containerd-" + id + ".scope": id, "libpod-" + id: id, id: id,
		"lxc.payload.web": "web", "nginx.service": "", "docker-123.scope": "",
	} {
		testkit.Diff(t, name, want, ContainerOf(name))
	}
	const alloc = "5a1b2c3d-1111-2222-3333-444455556666"
	for name, want := range map[string][2]string{
		alloc + ".web.scope": {alloc, "web"}, alloc + ".a.b": {alloc, "a.b"}, alloc: {}, "x.web.scope": {},
	} {
		gotAlloc, gotTask := NomadGroup(name)
		testkit.Diff(t, name, want, [2]string{gotAlloc, gotTask})
	}
}
