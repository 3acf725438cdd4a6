// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestExec(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.runSleeper()
	tests := []struct {
		name, script   string
		stdout, stderr string
		code, signal   int32
	}{
		{"streams apart", "echo out; echo err >&2", "out\n", "err\n", 0, 0},
		{"exit code", "exit 3", "", "", 3, 0},
		{"signal", "kill -USR1 $$", "", "", 138, 10},
		{"no new line", "printf x; printf y >&2", "x", "y", 0, 0},
		{"pipeline", "echo a b c | tr ' ' '\\n' | tail -1", "c\n", "", 0, 0},
		{"a writer that comes after the shell", "(sleep 0.05; echo late) & exit 4", "late\n", "", 4, 0},
		{"no terminal", "test -t 0 || echo none", "none\n", "", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := f.shell(tt.script)
			x.endInput()
			exit := x.end()
			if exit.GetCode() != tt.code || exit.GetSignal() != tt.signal {
				t.Errorf("code %d and signal %d, want %d and %d", exit.GetCode(), exit.GetSignal(), tt.code, tt.signal)
			}
			testkit.Diff(t, "output", []string{tt.stdout, tt.stderr}, []string{x.stdout.String(), x.stderr.String()})
		})
	}
}

func TestExecInput(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.runSleeper()
	t.Run("chunks and an end", func(t *testing.T) {
		x := f.shell("read a; echo got $a; cat; echo end")
		x.input("first\n")
		x.expect("got first\n")
		x.input("second ")
		x.input("third\n")
		x.expect("second third\n")
		x.endInput()
		x.end()
		testkit.Equal(t, x.stdout.String(), "got first\nsecond third\nend\n", "output")
	})
	t.Run("the caller's half of the stream ends", func(t *testing.T) {
		x := f.shell("cat; echo end")
		x.input("text ")
		must(t, x.CloseSend())
		x.end()
		testkit.Equal(t, x.stdout.String(), "text end\n", "output")
	})
	t.Run("nobody reads it", func(t *testing.T) {
		x := f.shell("exec <&-; echo closed; read x < /proc/self/fd/9 2>/dev/null; exit 5")
		x.expect("closed")
		for range 10 {
			x.input(strings.Repeat("unwanted\n", 1000))
		}
		testkit.Equal(t, x.end().GetCode(), 5, "code")
	})
	t.Run("a megabyte there and back", func(t *testing.T) {
		x := f.shell("cat")
		line := strings.Repeat("0123456789abcdef", 64)
		const lines = 1000
		go func() {
			for range lines {
				x.input(line)
			}
			x.endInput()
		}()
		x.end()
		if got := x.stdout.String(); got != strings.Repeat(line, lines) {
			t.Errorf("%d bytes came back, or others than went: want %d", len(got), len(line)*lines)
		}
	})
}

func TestExecTerminal(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.runSleeper()
	t.Run("is one", func(t *testing.T) {
		x := f.terminal("test -t 0 && test -t 1 && test -t 2 && echo yes on $TERM; echo err >&2; : < /dev/tty && exit 6")
		testkit.Equal(t, x.end().GetCode(), 6, "code")
		if got, want := x.stdout.String(), "yes on xterm\r\nerr\r\n"; got != want || x.stderr.Len() > 0 {
			t.Errorf("output %q and %q, want %q on one stream", got, x.stderr.String(), want)
		}
	})
	t.Run("has a size", func(t *testing.T) {
		x := f.terminal("trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done")
		x.expect("ready")
		x.resize(33, 101)
		x.expect("33 101")
		x.resize(24, 80)
		x.expect("24 80")
		x.input("\x03") // the terminal makes a signal of it
		if exit := x.end(); exit.GetSignal() != 2 || exit.GetCode() != 130 {
			t.Errorf("exit %v, want signal 2", exit)
		}
	})
	t.Run("input ends", func(t *testing.T) {
		x := f.terminal("stty -echo; echo ready; cat; echo end")
		x.expect("ready\r\n")
		x.input("line\n")
		x.expect("line\r\n")
		x.endInput()
		x.end()
		testkit.Equal(t, x.stdout.String(), "ready\r\nline\r\nend\r\n", "output")
	})
	t.Run("all of a long output", func(t *testing.T) {
		x := f.terminal("seq 1 20000")
		x.end()
		lines := strings.Split(strings.TrimSuffix(x.stdout.String(), "\r\n"), "\r\n")
		if len(lines) != 20000 || lines[19999] != "20000" {
			t.Errorf("%d lines, the last one %q", len(lines), lines[len(lines)-1])
		}
	})
	t.Run("a daemon holds it", func(t *testing.T) {
		began := time.Now()
		x := f.terminal("trap '' HUP; sleep 5 & echo done")
		x.end()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the end took %s", took)
		}
	})
}

// What a command leaves behind with its streams does not hold up its exit code.
func TestExecLeavesADaemon(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.runSleeper()
	for name, script := range map[string]string{
		"silent":  "sleep 1000 & echo done",
		"talking": "(while :; do echo x; sleep 0.02; done) & echo done",
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			x := f.shell(script)
			testkit.Equal(t, x.end().GetCode(), 0, "code")
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("the exit code came after %s", took)
			}
			if !strings.Contains(x.stdout.String(), "done\n") {
				t.Errorf("output %q", x.stdout.String())
			}
		})
	}
}

// A command runs as the main process does: folder, user, environment, cgroup.
func TestExecContext(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		user := ""
		if os.Geteuid() == 0 {
			user = "nobody"
			must(t, os.Chmod(f.dir, 0o777))
		}
		const look = "pwd; id -un; cat /proc/self/cgroup; echo $OWN; cat /proc/self/oom_score_adj; ls /proc/self/fd"
		f.run(look+"; echo ready; exec sleep 1000", place, func(r *proto.LaunchRequest) {
			r.User = user
			r.Env = append(r.Env, "OWN=task's")
			r.Stdio.StdoutPath, r.Stdio.StderrPath = f.out, f.err
		})
		f.expect("ready\n")
		x := f.shell(look)
		x.endInput()
		x.end()
		if d := cmp.Diff(strings.TrimSuffix(f.stdout(), "ready\n"), x.stdout.String()); d != "" {
			t.Errorf("what the main process and the command see (-main +command):\n%s", d)
		}
		if user != "" && !strings.Contains(x.stdout.String(), "\nnobody\n") {
			t.Errorf("the command ran as somebody else: %q", x.stdout.String())
		}
		more := f.exec(t.Context(), &proto.ExecSetup{
			Command: []string{"/usr/bin/env"}, Env: []string{"OWN=command's", "MORE=1"},
		})
		more.end()
		if got := more.stdout.String(); !strings.Contains(got, "OWN=command's\n") || strings.Contains(got, "task's") ||
			!strings.Contains(got, "MORE=1\n") || !strings.Contains(got, markVariable) {
			t.Errorf("environment:\n%s", got)
		}
		if os.Geteuid() == 0 { // /dev/stdout can be opened by the user it was made for
			x := f.shell("echo again > /dev/stdout; echo err > /dev/stderr")
			x.end()
			if x.stdout.String() != "again\n" || x.stderr.String() != "err\n" {
				t.Errorf("through /dev/stdout and /dev/stderr: %q, %q", x.stdout.String(), x.stderr.String())
			}
		}
	})
}

func TestExecRefused(t *testing.T) {
	t.Parallel()
	f := start(t)
	stream := testkit.Value(f.Exec(t.Context()))(t)
	early := &execution{BidiStreamingClient: stream, t: t}
	if err := early.finish(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("exec before Launch: %v", err)
	}
	f.runSleeper()
	tests := []struct {
		name    string
		message *proto.ExecRequest
		want    codes.Code
	}{
		{"nothing", &proto.ExecRequest{}, codes.InvalidArgument},
		{"input first", &proto.ExecRequest{Message: &proto.ExecRequest_Stdin{Stdin: []byte("x")}}, codes.InvalidArgument},
		{"no command", setupOf(), codes.InvalidArgument},
		{"empty command", setupOf(""), codes.InvalidArgument},
		{"not found", setupOf("no-such-command"), codes.NotFound},
		{"not found by path", setupOf("/no/such/command"), codes.NotFound},
		{"a folder", setupOf("/tmp"), codes.PermissionDenied},
		{"not executable", setupOf("/etc/passwd"), codes.PermissionDenied},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stream := testkit.Value(f.Exec(t.Context()))(t)
			x := &execution{BidiStreamingClient: stream, t: t}
			x.send(tt.message)
			if err := x.finish(); status.Code(err) != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

func setupOf(command ...string) *proto.ExecRequest {
	return &proto.ExecRequest{Message: &proto.ExecRequest_Setup{Setup: &proto.ExecSetup{Command: command}}}
}

func TestExecAfterTheEnd(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.run("exit 0")
	f.wait()
	if err := f.shell("echo never").finish(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("exec after the end of the task: %v", err)
	}
}

// Between the end of the main process and that of the task nothing can be added to it.
func TestExecBetweenTheEnds(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.run("trap '' TERM; (trap '' TERM; echo child; exec sleep 1000) & exit 0", func(r *proto.LaunchRequest) {
		r.WaitForAll = true
	})
	f.expect("child")
	f.expectEvent("main_exited")
	if err := f.shell("echo never").finish(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("exec after the end of the main process: %v", err)
	}
}

func TestExecCancel(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.runSleeper(place)
		const before = 1
		f.eventually(soon, "the task has its process", func() bool { return len(f.processes()) == before })
		for _, tty := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			x := f.exec(ctx, &proto.ExecSetup{
				Command: []string{"sh", "-c", "trap '' TERM HUP INT; sleep 1000 & echo ready; wait; wait"}, Tty: tty,
			})
			x.expect("ready")
			f.eventually(soon, "the command has its child", func() bool { return len(f.processes()) == before+2 })
			cancel()
			if err := x.finish(); status.Code(err) != codes.Canceled {
				t.Errorf("exec: %v, want that it was canceled", err)
			}
			took := f.eventually(time.Second, "the command and its child are gone", func() bool { return len(f.processes()) == before })
			t.Logf("terminal %t: gone after %s", tty, took)
		}
	})
}

// A caller that dies says nothing; its connection breaks.
func TestExecCallerIsGone(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.runSleeper()
	visitor := f.visit()
	stream := testkit.Value(visitor.Exec(t.Context()))(t)
	x := &execution{BidiStreamingClient: stream, t: t}
	x.send(setupOf("sh", "-c", "echo ready; exec sleep 1000"))
	x.expect("ready")
	must(t, visitor.Close())
	f.eventually(time.Second, "the command is gone", func() bool { return len(f.processes()) == 1 })
}

// A command that outlives the main process belongs to what is left behind and stopped with it.
func TestExecIsALeftover(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.run("echo ready; read x < go; exit 7", place, func(r *proto.LaunchRequest) {
			r.Args[1] = "mkfifo go; " + r.Args[1]
			r.KillGraceNs = int64(10 * time.Second)
		})
		f.expect("ready")
		x := f.shell("trap 'echo asked to end; exit 8' TERM; echo running; while :; do sleep 0.02; done")
		x.expect("running")
		f.write("go", "\n")
		exit, _ := f.wait()
		if exit.GetCode() != 7 {
			t.Errorf("task: %v, want code 7", exit)
		}
		if got := x.end(); got.GetCode() != 8 || !strings.Contains(x.stdout.String(), "asked to end") {
			t.Errorf("command: %v, output %q; want code 8 after SIGTERM", got, x.stdout.String())
		}
	})
}

// The CPU time of a command is the task's.
func TestExecIsCharged(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.runSleeper(place)
		used := func() float64 {
			sample := testkit.Value(f.Sample(t.Context(), 0, false))(t)
			for _, h := range procstats.Headlines(sample, procstats.History{}) {
				if h.ID == procstats.HeadlineCPU {
					seconds, ok := h.Reading.Number()
					if !ok {
						t.Fatalf("no CPU time: %s", h.Reading.Reason())
					}
					return seconds
				}
			}
			t.Fatal("no CPU headline")
			return 0
		}
		before := used()
		x := f.shell("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; cat /proc/$$/stat")
		x.end()
		own := f.userAndSystem(x.stdout.String())
		if got := used() - before; got < own*0.9 || got > own+0.1 {
			t.Errorf("the task was charged %.3f s, the command used %.3f s", got, own)
		} else {
			t.Logf("charged %.3f s, used %.3f s", got, own)
		}
	})
}

// userAndSystem returns utime and stime of a stat line in seconds: fields 14 and 15, proc_pid_stat(5).
func (f *fixture) userAndSystem(stat string) float64 {
	f.t.Helper()
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	var user, system int
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		f.t.Fatal(err)
	}
	return float64(user+system) / 100
}

// A caller that does not read stops the command, and not the memory of the executor.
func TestExecBackpressure(t *testing.T) {
	f := start(t)
	f.runSleeper()
	x := f.shell("echo $$; exec yes 0123456789abcdefghijklmnopqrstuvwxyz")
	x.expect("\n")
	before := f.privateDirty()
	stalled := f.eventually(soon, "the writer stands still", func() bool {
		wrote := f.wchar(x)
		<-time.After(100 * time.Millisecond)
		return f.wchar(x) == wrote
	})
	after := f.privateDirty()
	t.Logf("stands still after %s, %d KiB written; executor's private memory %d KiB before, %d KiB after",
		stalled, f.wchar(x)>>10, before>>10, after>>10)
	if f.wchar(x) > 2<<20 {
		t.Errorf("%d bytes went out although nobody reads", f.wchar(x))
	}
	if after > before+1<<20 {
		t.Errorf("the executor holds %d bytes more", after-before)
	}
	x.expect("xyz\n") // and goes on
	must(t, f.Stop(t.Context(), 9, 0))
	if exit := x.end(); exit.GetSignal() != 9 {
		t.Errorf("command: %v", exit)
	}
}

// wchar is how much the writer of TestExecBackpressure has written; its PID is the first line of the output.
func (f *fixture) wchar(x *execution) int {
	f.t.Helper()
	pid, _, _ := strings.Cut(x.stdout.String(), "\n")
	return f.procNumber("/proc/"+pid+"/io", "wchar:")
}

func TestExecMany(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.runSleeper()
	const many = 20
	running := make([]*execution, many)
	for i := range running {
		running[i] = f.shell(fmt.Sprintf("echo %d; cat >/dev/null; exit %d", i, i))
	}
	for i, x := range running {
		x.expect(fmt.Sprintf("%d\n", i))
	}
	for i, x := range running {
		x.endInput()
		if code := x.end().GetCode(); int(code) != i {
			t.Errorf("command %d exited with %d", i, code)
		}
	}
}
