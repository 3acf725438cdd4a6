// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// file makes a file in the fixture's folder and returns its path.
func (f *fixture) file(name, text string, mode os.FileMode) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	must(f.t, os.WriteFile(path, []byte(text), mode))
	return path
}

func TestStartFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*fixture, *proto.LaunchRequest)
		want   codes.Code
	}{
		{"no command", func(_ *fixture, r *proto.LaunchRequest) { r.Command = "" }, codes.InvalidArgument},
		{"not found in PATH", func(_ *fixture, r *proto.LaunchRequest) { r.Command = "no-such-command" }, codes.NotFound},
		{"not found", func(_ *fixture, r *proto.LaunchRequest) { r.Command = "/no/such/command" }, codes.NotFound},
		{"not found in the folder", func(_ *fixture, r *proto.LaunchRequest) { r.Command = "./command" }, codes.NotFound},
		{"no mode", func(f *fixture, r *proto.LaunchRequest) {
			r.Command = f.file("script", "#!/bin/sh\n", 0o644)
		}, codes.PermissionDenied},
		{"a folder", func(f *fixture, r *proto.LaunchRequest) { r.Command = f.dir }, codes.PermissionDenied},
		{"an empty file", func(f *fixture, r *proto.LaunchRequest) { r.Command = f.file("empty", "", 0o755) }, codes.PermissionDenied},
		{"no folder to work in", func(_ *fixture, r *proto.LaunchRequest) { r.Dir = "/no/such/folder" }, codes.NotFound},
		{"no such user", func(_ *fixture, r *proto.LaunchRequest) { r.User = "nobody-of-that-name" }, codes.InvalidArgument},
		{"no such group", func(_ *fixture, r *proto.LaunchRequest) { r.User = "nobody:no-such-group" }, codes.InvalidArgument},
		{"no such descriptor", func(_ *fixture, r *proto.LaunchRequest) {
			r.Stdio = &proto.Stdio{Mode: proto.Stdio_MODE_DESCRIPTORS, StdinFd: 400, StdoutFd: 401, StderrFd: 402}
		}, codes.InvalidArgument},
		{"no such stream", func(_ *fixture, r *proto.LaunchRequest) { r.Stdio.StdoutPath = "/no/such/folder/out" }, codes.InvalidArgument},
		{"no such mode", func(_ *fixture, r *proto.LaunchRequest) { r.Stdio = &proto.Stdio{Mode: 99} }, codes.InvalidArgument},
		{"no such cgroup", func(_ *fixture, r *proto.LaunchRequest) {
			r.Cgroup = &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_GIVEN, V2: "/no/such/cgroup"}
		}, codes.FailedPrecondition},
		{"no such parent", func(_ *fixture, r *proto.LaunchRequest) { r.Cgroup.Parent = "/no-such-parent" }, codes.FailedPrecondition},
		{"no such namespace", func(_ *fixture, r *proto.LaunchRequest) { r.NetworkNamespace = "/no/such/namespace" }, codes.NotFound},
		{"unknown selection", func(_ *fixture, r *proto.LaunchRequest) { r.Selection = []uint32{60000} }, codes.InvalidArgument},
		{"unknown group and required", func(_ *fixture, r *proto.LaunchRequest) { r.RequiredGroups = []string{"nonsense"} }, codes.InvalidArgument},
		{"unknown and required", func(_ *fixture, r *proto.LaunchRequest) { r.Required = []uint32{60000} }, codes.InvalidArgument},
		{"required, beyond all numbers", func(_ *fixture, r *proto.LaunchRequest) {
			r.Required = []uint32{1<<16 | uint32(procstats.TreeRSS)} // its lower half is one that is known
		}, codes.InvalidArgument},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t)
			request := f.request("echo never")
			tt.change(f, request)
			_, err := f.Launch(t.Context(), request)
			if status.Code(err) != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if s, _ := status.FromError(err); strings.Contains(s.Message(), "rpc error") || strings.Contains(s.Message(), "\n") {
				t.Errorf("the message is not one sentence: %q", s.Message())
			}
			if left := f.processes(); len(left) > 0 {
				t.Errorf("left behind: processes %v", left)
			}
			f.noCgroupLeft()
		})
	}
}

// A PATH may have folders relative to the task's own; that itself is an empty one.
func TestRelativePath(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"tools", "", ":/bin", "/no/such/folder:tools", ".//tools"} {
		t.Run("PATH="+path, func(t *testing.T) {
			f := start(t)
			must(t, os.Mkdir(filepath.Join(f.dir, "tools"), 0o755))
			f.file("probe", "#!/bin/sh\necho found\n", 0o755)
			f.file("tools/probe", "#!/bin/sh\necho found\n", 0o755)
			f.run("", func(r *proto.LaunchRequest) { r.Command, r.Args, r.Env = "probe", nil, append(r.Env, "PATH="+path) })
			if exit, _ := f.wait(); exit.GetCode() != 0 || f.stdout() != "found\n" {
				t.Errorf("exit %v, output %q", exit, f.stdout())
			}
		})
	}
}

// Limits that cannot be set are a refusal, and where they are optional a note.
func TestLimitsOptional(t *testing.T) {
	t.Parallel()
	limited := func(r *proto.LaunchRequest) {
		withoutCgroup(r) // in which no limit can be held
		r.Limits = &proto.Limits{MemoryMaxBytes: new(int64(64 << 20))}
	}
	t.Run("not optional", func(t *testing.T) {
		f := start(t)
		request := f.request("echo never")
		limited(request)
		if _, err := f.Launch(t.Context(), request); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%v, want FailedPrecondition", err)
		}
	})
	t.Run("optional", func(t *testing.T) {
		f := start(t)
		launched := f.run("echo ran", limited, func(r *proto.LaunchRequest) { r.LimitsOptional = true })
		isNote := func(note string) bool { return strings.HasPrefix(note, "limits not enforced: ") }
		if !slices.ContainsFunc(launched.GetNotes(), isNote) {
			t.Errorf("notes %q", launched.GetNotes())
		}
		exit, final := f.wait()
		if exit.GetCode() != 0 || f.stdout() != "ran\n" || !slices.ContainsFunc(final.Notes, isNote) {
			t.Errorf("exit %v, output %q, notes of the record %q", exit, f.stdout(), final.Notes)
		}
	})
}

// An executor takes one request, and does not say of one that it refused that the task was started.
func TestLaunchAfterRefusal(t *testing.T) {
	t.Parallel()
	f := start(t)
	refused := f.request("echo never")
	refused.Command = "/no/such/command"
	if _, err := f.Launch(t.Context(), refused); status.Code(err) != codes.NotFound {
		t.Fatalf("%v, want NotFound", err)
	}
	_, err := f.Launch(t.Context(), f.request("echo never"))
	if status.Code(err) != codes.FailedPrecondition || strings.Contains(err.Error(), "has launched") {
		t.Errorf("%v, want a refusal that does not speak of a task", err)
	}
}

// One error of the start stands for the command and for the folder it starts in, so it names both.
func TestFolderOfAnother(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("starting a task as another user takes root")
	}
	f := start(t)
	request := f.request("echo never")
	secret := filepath.Join(f.dir, "secret")
	must(t, os.Mkdir(secret, 0o700))
	request.Dir, request.User = secret, "nobody"
	_, err := f.Launch(t.Context(), request)
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "the working directory "+secret+" may not be entered by user") {
		t.Errorf("%v, want a refusal that names %s", err, secret)
	}
}

// Arguments, environments and folders are any bytes, and so are the names that processes give themselves.
func TestAnyBytes(t *testing.T) {
	t.Parallel()
	f := start(t)
	odd := filepath.Join(f.dir, "d\xff")
	must(t, os.Mkdir(odd, 0o755))
	f.run(`printf '%s %s ' "$ODD" "$(pwd)"; printf 'a\377' > /proc/self/comm; echo "$0"`, func(r *proto.LaunchRequest) {
		r.Dir = odd
		r.Env = append(r.Env, "ODD=caf\xe9")
		r.Args = append(r.Args, "zero\xfe")
	})
	if exit, _ := f.wait(); exit.GetCode() != 0 {
		t.Errorf("exit %v", exit)
	}
	testkit.Equal(t, f.stdout(), "caf\xe9 "+odd+" zero\xfe\n", "the task saw")
}

// What was asked for by name and cannot be read here is refused before anything runs.
func TestRequiredMeasurements(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) {
		f := start(t)
		request := f.request("echo never")
		withoutCgroup(request)
		request.Required = []uint32{uint32(procstats.CgroupMemoryPeak)}
		request.Selection = request.Required
		_, err := f.Launch(t.Context(), request)
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "cgroup_memory_peak_bytes") {
			t.Errorf("%v, want a refusal that names the measurement", err)
		}
		if f.stdout() != "" || len(f.processes()) > 0 {
			t.Errorf("it ran: %q, %v", f.stdout(), f.processes())
		}
	})
	t.Run("a group of which nothing is readable", func(t *testing.T) {
		f := start(t)
		request := f.request("echo never")
		withoutCgroup(request)
		request.RequiredGroups = []string{"tree", "psi_cpu"}
		_, err := f.Launch(t.Context(), request)
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "no measurement of psi_cpu") {
			t.Errorf("%v, want a refusal that names the group", err)
		}
		if f.stdout() != "" || len(f.processes()) > 0 {
			t.Errorf("it ran: %q, %v", f.stdout(), f.processes())
		}
	})
	t.Run("readable", func(t *testing.T) {
		f := start(t)
		f.run("echo ran", withoutCgroup, func(r *proto.LaunchRequest) {
			r.RequiredGroups = []string{"memory", "tree"} // as headline, from what there is
			r.Required = []uint32{uint32(procstats.TreeRSS), uint32(procstats.TreeCPU)}
			r.Selection = r.Required
		})
		f.wait()
		testkit.Equal(t, f.stdout(), "ran\n", "output")
	})
}

// A task gets three streams, no descriptor more, and nothing of the executor's own state.
func TestTaskStartsClean(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.run("ls /proc/self/fd | tr '\\n' ' '; grep -E '^Sig(Blk|Ign)' /proc/self/status | tr '\\n\\t' '  '; umask; ulimit -n; env | sort", place)
		f.wait()
		var own strings.Builder
		for line := range strings.SplitSeq(f.stdout(), "\n") {
			if !strings.HasPrefix(line, markVariable) && !strings.HasPrefix(line, "PWD") {
				own.WriteString(line + "\n")
			}
		}
		// ls itself has the folder open as number 3.
		for _, want := range []string{"0 1 2 3 ", "SigBlk: 0000000000000000", "PATH=/usr/local/bin"} {
			if !strings.Contains(own.String(), want) {
				t.Errorf("no %q in:\n%s", want, own.String())
			}
		}
		for _, foreign := range []string{"PLUGIN", "TACHO", "GOGC", "GOMAXPROCS", "GOMEMLIMIT"} {
			if strings.Contains(own.String(), foreign) {
				t.Errorf("the task sees the executor's %s:\n%s", foreign, own.String())
			}
		}
	})
}

func TestTaskIdentity(t *testing.T) {
	t.Parallel()
	f := start(t)
	// The shortest life there is: its start time must be known although it may have ended before anybody looks.
	for range 3 {
		again := start(t)
		launched := again.run("", func(r *proto.LaunchRequest) { r.Command, r.Args = "/bin/true", nil })
		if launched.GetMain().GetPid() <= 0 || launched.GetMain().GetStart() == 0 {
			t.Errorf("identity %v", launched.GetMain())
		}
		again.wait()
	}
	launched := f.run("cut -d' ' -f1,5,6,22 /proc/$$/stat; exec sleep 1000")
	f.expect("\n")
	id := launched.GetMain()
	want := strings.Join([]string{str(id.GetPid()), str(id.GetPid()), str(id.GetPid()), str(id.GetStart())}, " ")
	testkit.Equal(t, strings.TrimSpace(f.stdout()), want, "pid, group, session and start time")
}

func TestUser(t *testing.T) {
	t.Parallel()
	needRoot(t, "a task of another user")
	for user, want := range map[string]string{
		"":            "0 0",
		"nobody":      "65534 65534",
		"65534":       "65534 65534",
		"nobody:root": "65534 0",
		"12345:54321": "12345 54321",
		"12345":       "12345 12345",
	} {
		f := start(t)
		must(t, os.Chmod(f.dir, 0o777))
		f.run("echo $(id -u) $(id -g)", func(r *proto.LaunchRequest) { r.User = user })
		f.wait()
		testkit.Equal(t, strings.TrimSpace(f.stdout()), want, "user %q runs as", user)
	}
}

func TestOOMScore(t *testing.T) {
	t.Parallel()
	f := start(t)
	score := int32(500)
	f.run("cat /proc/self/oom_score_adj", func(r *proto.LaunchRequest) { r.OomScoreAdj = &score })
	f.wait()
	if f.stdout() != "500\n" {
		t.Errorf("oom_score_adj %q, want 500", f.stdout())
	}
	own := testkit.Value(os.ReadFile("/proc/self/oom_score_adj"))(t)
	executors := testkit.Value(os.ReadFile("/proc/" + str(int32(f.Address().Executor.PID)) + "/oom_score_adj"))(t)
	want := "-1000\n"
	if err := exec.Command("sh", "-c", "echo -1000 > /proc/self/oom_score_adj").Run(); err != nil {
		want = string(own) // it takes CAP_SYS_RESOURCE, which root may lack
	}
	if string(executors) != want {
		t.Errorf("the executor's own oom_score_adj is %q, want %q", executors, want)
	}
	inherits := start(t)
	inherits.run("cat /proc/self/oom_score_adj")
	inherits.wait()
	if d := cmp.Diff(string(own), inherits.stdout()); d != "" {
		t.Errorf("a task that asks for nothing (-caller's +task's):\n%s", d)
	}
}
