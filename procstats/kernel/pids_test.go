// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestChildren(t *testing.T) {
	fs := procTree(t, map[string]string{
		"7/task/7/children": "8 9 ", "7/task/70/children": "71 ", "7/task/72/comm": "gone between two reads\n",
		"8/task/8/children": "", "9/task/9/children": "12 x ",
	})
	tests := []struct {
		name  string
		pid   int
		want  []int
		fails bool
	}{
		{name: "of all threads", pid: 7, want: []int{8, 9, 71}},
		{name: "none", pid: 8},
		{name: "a process that is gone", pid: 6},
		{name: "not in the kernel's format", pid: 9, fails: true},
	}
	for _, test := range tests {
		got, err := Children(fs, test.pid)
		if (err != nil) != test.fails || test.fails && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", test.name, err)
		}
		testkit.Diff(t, test.name, test.want, got)
	}
}

func TestReadPIDs(t *testing.T) {
	fs := procTree(t, map[string]string{"procs": "1\n0\n22\n", "hostile": "-1\n"})
	if pids, err := ReadPIDs(filepath.Join(fs.Proc, "procs")); err != nil || !cmp.Equal(pids, []int{1, 22}) {
		t.Errorf("processes of another namespace: %v, %v; want 1 and 22", pids, err)
	}
	if pids, err := ReadPIDs(filepath.Join(fs.Proc, "gone")); err != nil || pids != nil {
		t.Errorf("a file that is gone: %v, %v", pids, err)
	}
	if pids, err := ReadPIDs(filepath.Join(fs.Proc, "hostile")); !errors.Is(err, ErrFormat) || pids != nil {
		t.Errorf("a negative PID: %v, %v", pids, err)
	}
}

func TestControllerDisabled(t *testing.T) {
	fs := procTree(t, map[string]string{"cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t0\t1\t0\ncpu\t4\t90\t1\nshort 0\n"})
	for controller, want := range map[string]bool{"memory": true, "cpu": false, "pids": false, "short": false} {
		testkit.Equal(t, ControllerDisabled(fs, controller), want, "%s disabled", controller)
	}
	if ControllerDisabled(FS{Proc: t.TempDir()}, "memory") {
		t.Error("disabled by a file that does not exist")
	}
}

func TestMounts(t *testing.T) {
	fs := procTree(t, map[string]string{"self/mountinfo": "21 1 0:5 / /proc rw,nosuid shared:9 - proc proc rw,hidepid=2\n" +
		`22 1 0:6 / /with\040space ro - tmpfs none rw,size=1k` + "\n"})
	mounts := testkit.Value(Mounts(fs))(t)
	want := []Mount{
		{Root: "/", Point: "/proc", FSType: "proc", Options: []string{"rw", "nosuid"}, SuperOptions: []string{"rw", "hidepid=2"}, id: 21, parent: 1},
		{Root: "/", Point: "/with space", FSType: "tmpfs", Options: []string{"ro"}, SuperOptions: []string{"rw", "size=1k"}, id: 22, parent: 1},
	}
	testkit.Diff(t, "result", want, mounts, cmp.AllowUnexported(Mount{}))
	if _, err := Mounts(FS{Proc: t.TempDir()}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no mountinfo: %v", err)
	}
}
