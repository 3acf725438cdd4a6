// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package limits

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// taskVariable makes this binary the command that is held to limits.
const taskVariable = "E2E_LIMITS_TASK"

func TestMain(m *testing.M) {
	if role, argument, _ := strings.Cut(os.Getenv(taskVariable), " "); role != "" {
		if err := task(role, argument); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(rig.Main(m))
}

// run holds a task to limits and returns its record and what it told.
func run(t *testing.T, task string, flags ...string) (*record.Record, told) {
	t.Helper()
	p := rig.NewPlace(t, rig.Self())
	told := start(t, p, task, flags...)()
	return p.TheRun(t).Record, told
}

// start starts a task in a place; wait returns what it told.
func start(t *testing.T, p *rig.Place, task string, flags ...string) (wait func() told) {
	t.Helper()
	cmd := p.Run(t.Context(), slices.Concat([]string{"--interval", "100ms"}, flags, []string{"--", self(t)})...)
	cmd.Env = append(cmd.Env, taskVariable+"="+task)
	ended := make(chan rig.Output, 1)
	go func() { ended <- rig.Capture(t, cmd) }()
	return func() told {
		t.Helper()
		return decode(t, <-ended)
	}
}

// decode returns what a task told.
func decode(t *testing.T, out rig.Output) (told told) {
	t.Helper()
	if out.Code != 0 {
		t.Fatalf("code %d, said\n%s", out.Code, out.Stderr)
	}
	if err := json.Unmarshal([]byte(out.Stdout), &told); err != nil {
		t.Fatalf("%v: %q", err, out.Stdout)
	}
	return told
}

func self(t *testing.T) string {
	t.Helper()
	path := testkit.Value(os.Executable())(t)
	return path
}

// holds asserts a limit of a record.
func holds(t *testing.T, r *record.Record, name string, requested, effective float64) record.Limit {
	t.Helper()
	i := slices.IndexFunc(r.Limits, func(l record.Limit) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no %s among %+v", name, r.Limits)
	}
	l := r.Limits[i]
	if l.Requested == nil || *l.Requested != requested || l.Effective == nil || *l.Effective != effective {
		t.Errorf("%+v, want %v asked for and %v in force", l, requested, effective)
	}
	return l
}

// number returns a final value of a record.
func number(t *testing.T, r *record.Record, name string) float64 {
	t.Helper()
	value, ok := r.Measurements[name].(float64)
	if !ok {
		t.Fatalf("no %s: %s", name, r.Absent[name])
	}
	return value
}

// needLimits skips where the tests can make no groups with controllers.
func needLimits(t *testing.T) {
	t.Helper()
	rig.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("limits here are root's to set")
	}
}

// version says on which version of cgroups a controller is to be had here, and where that is mounted; 0 for neither.
func version(t *testing.T, controller string) (version int, mount string) {
	t.Helper()
	mounts := testkit.Value(kernel.CgroupMounts(kernel.HostFS()))(t)
	for _, m := range mounts {
		if slices.Contains(m.Controllers, controller) {
			return m.Version, m.Point
		}
	}
	return 0, ""
}

// needControllers skips where a kernel or a layout does not have what the test is about.
func needControllers(t *testing.T, controllers ...string) {
	t.Helper()
	needLimits(t)
	for _, controller := range controllers {
		if v, _ := version(t, controller); v == 0 {
			t.Skipf("there is no %s controller here", controller)
		}
	}
}

// enableInRoot has the root of v2 hand a controller on.
func enableInRoot(t *testing.T, controller string) {
	t.Helper()
	_, mount := version(t, controller)
	testkit.Must(t, os.WriteFile(filepath.Join(mount, "cgroup.subtree_control"), []byte("+"+controller), 0))
}
