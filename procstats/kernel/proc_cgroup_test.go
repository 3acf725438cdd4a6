// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// findPID is the process whose cgroups are looked for.
const findPID = 4242

// findTree writes a proc folder with a mountinfo and the cgroups of findPID.
func findTree(t *testing.T, mountinfo, cgroup string) FS {
	t.Helper()
	return procTree(t, map[string]string{"self/mountinfo": mountinfo, fmt.Sprintf("%d/cgroup", findPID): cgroup})
}

func TestFindCgroup(t *testing.T) {
	archives, err := filepath.Glob("testdata/discover/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".txtar"), func(t *testing.T) {
			parsed := testkit.Value(txtar.ParseFile(archive))(t)
			content := map[string]string{}
			for _, f := range parsed.Files {
				content[f.Name] = string(f.Data)
			}
			mountinfo, cgroup := content["proc/self/mountinfo"], content["proc/4242/cgroup"]
			for _, newline := range []string{"\n", "\r\n"} {
				fs := findTree(t, strings.ReplaceAll(mountinfo, "\n", newline), strings.ReplaceAll(cgroup, "\n", newline))
				c := testkit.Value(FindCgroup(fs, findPID))(t)
				testkit.Diff(t, fmt.Sprintf("newline %q: folders differ", newline), content["want"], folders(c))
			}
		})
	}
}

// folders prints the folders of a cgroup, a line each.
func folders(c procstats.Cgroup) string {
	var lines []string
	for controller, dir := range c.V1 {
		lines = append(lines, controller+" "+dir+"\n")
	}
	if c.V2 != "" {
		lines = append(lines, "v2 "+c.V2+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func TestFindCgroupRefuses(t *testing.T) {
	const mount = "30 24 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
	tests := map[string]struct{ mountinfo, cgroup string }{
		"cgroup line without colons":  {mount, "junk\n"},
		"cgroup line without path":    {mount, "0::\n"},
		"cgroup line with one colon":  {mount, "0:/task\n"},
		"mountinfo line of one word":  {"junk\n", "0::/task\n"},
		"mountinfo line cut short":    {mount[:len(mount)-10], "0::/task\n"},
		"mountinfo line, no hyphen":   {"30 24 0:28 / /sys/fs/cgroup rw,relatime cgroup2 cgroup2 rw\n", "0::/task\n"},
		"mountinfo line, id no digit": {"x 24 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n", "0::/task\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := FindCgroup(findTree(t, test.mountinfo, test.cgroup), findPID)
			if err == nil || c.Exists() {
				t.Errorf("got %+v and error %v, want an error", c, err)
			}
		})
	}
}

func TestFindCgroupOfNoProcess(t *testing.T) {
	_, err := FindCgroup(findTree(t, "", ""), findPID+1)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "process 4243") {
		t.Errorf("got %v, want one that wraps ErrNotExist and names the process", err)
	}
	if _, err := FindCgroup(FS{Proc: t.TempDir()}, findPID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a procfs: %v, want one that wraps ErrNotExist", err)
	}
}

func TestCgroupMounts(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("cpu io memory\n"), 0o600))
	fs := findTree(t, `34 25 0:28 / /cg ro,nosuid - tmpfs tmpfs ro,seclabel,mode=755
35 34 0:29 / `+dir+` rw,nosuid - cgroup2 cgroup2 rw,seclabel,nsdelegate
36 34 0:30 / /cg/systemd rw,nosuid - cgroup cgroup rw,seclabel,xattr,name=systemd,release_agent=/bin/x
40 34 0:34 /part /cg/cpu,cpuacct rw,nosuid shared:16 master:3 - cgroup cgroup rw,seclabel,cpuacct,cpu
41 34 0:35 / /cg/memory rw,nosuid - cgroup cgroup ro,memory
42 34 0:36 / /cg/pids ro,nosuid - cgroup cgroup rw,pids
43 42 0:36 / /cg/pids rw,nosuid - cgroup  rw,pids
44 34 0:36 / /nowhere rw,nosuid - cgroup2 cgroup2 rw
`, "")
	got := testkit.Value(CgroupMounts(fs))(t)
	want := []CgroupMount{
		{Point: dir, Root: "/", Version: 2, Controllers: []string{"cpu", "io", "memory"}, Options: []string{"rw", "seclabel", "nsdelegate"}},
		{Point: "/cg/cpu,cpuacct", Root: "/part", Version: 1, Controllers: []string{"cpu", "cpuacct"}},
		{Point: "/cg/memory", Root: "/", Version: 1, Controllers: []string{"memory"}, ReadOnly: true},
		{Point: "/cg/pids", Root: "/", Version: 1, Controllers: []string{"pids"}},
		{Point: "/nowhere", Root: "/", Version: 2, Controllers: []string{}, Options: []string{"rw"}},
	}
	testkit.Diff(t, "mounts differ", want, got)
}

func TestEndedOutside(t *testing.T) {
	mounts := []CgroupMount{{Point: "/cg/unified", Root: "/", Version: 2}, {Point: "/cg/memory", Root: "/", Version: 1, Controllers: []string{"memory"}}}
	paths := PathsOf(procstats.Cgroup{V2: "/cg/unified/task", V1: map[string]string{"memory": "/cg/memory/task"}}, mounts)
	for content, want := range map[string]bool{
		"5:memory:/\n0::/task\n":             false, // as version 1 says of all that have ended
		"5:memory:/\n0::/task/below\n":       false,
		"5:memory:/\n0::/tasks\n":            true,
		"5:memory:/\n0::/\n":                 true,
		"5:memory:/\n0::/task/b (deleted)\n": false,
		"5:memory:/\n":                       false,
		"no\n":                               false,
	} {
		fs := findTree(t, "", content)
		testkit.Equal(t, paths.EndedOutside(fs, findPID), want, "%q: outside", content)
	}
}
