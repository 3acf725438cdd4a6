// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// killExecutor is what the OOM killer, or an operator, does to an executor.
func (f *fixture) killExecutor() {
	f.t.Helper()
	must(f.t, unix.Kill(f.Address().Executor.PID, unix.SIGKILL))
	select {
	case <-f.Lost():
	case <-time.After(soon):
		f.t.Fatalf("the end of the executor was not noticed in %s", soon)
	}
}

// withinSecond bounds what whoever holds an executor's pidfd may take to end its task.
const withinSecond = time.Second

func TestKillTask(t *testing.T) {
	t.Parallel()
	t.Run("in a cgroup", func(t *testing.T) {
		needCgroup(t)
		f := start(t)
		f.run(family + "while :; do sleep 1000; done")
		f.expect("daemon")
		f.expect("ready")
		if err := f.KillTask(t.Context()); err == nil {
			t.Fatal("the task of a live executor was killed behind its back")
		}
		began := time.Now()
		f.killExecutor()
		if _, _, err := f.Wait(t.Context()); !errors.Is(err, client.ErrLost) {
			t.Errorf("Wait: %v, want that the executor is lost", err)
		}
		must(t, f.KillTask(t.Context()))
		if took := time.Since(began); took > withinSecond {
			t.Errorf("it took %s until the cgroup was empty", took)
		} else {
			t.Logf("empty %s after the executor was killed", took)
		}
		f.noneLeftButExecutor()
	})
	t.Run("without a cgroup", func(t *testing.T) {
		f := start(t)
		f.run("trap '' TERM HUP INT; (trap '' TERM HUP INT; echo child; while :; do sleep 1000; done) & while :; do sleep 1000; done", withoutCgroup)
		f.expect("child")
		began := time.Now()
		f.killExecutor()
		must(t, f.KillTask(t.Context()))
		f.eventually(withinSecond, "nothing is left of the session", func() bool { return len(f.processes()) == 0 })
		t.Logf("empty %s after the executor was killed", time.Since(began))
	})
	t.Run("again", func(t *testing.T) {
		f := start(t)
		f.runSleeper()
		f.killExecutor()
		for range 2 {
			testkit.NoError(t, f.KillTask(t.Context()))
		}
	})
}

// Nobody is there to kill the task: its main process ends with the executor all the same.
func TestExecutorDiesAlone(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.runSleeper(withoutCgroup)
	f.killExecutor()
	f.eventually(withinSecond, "the main process is gone", func() bool { return len(f.processes()) == 0 })
	must(t, f.KillTask(t.Context()))
}

// An executor that dies before it has answered Launch may have started the task.
func TestExecutorDiesInLaunch(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		unanswered := 0
		for range 10 {
			f := start(t)
			request := f.request("kill -KILL $PPID; exec sleep 1000")
			place(request)
			_, err := f.Launch(t.Context(), request)
			switch {
			case err == nil: // it was quick
				<-f.Lost()
				testkit.NoError(t, f.KillTask(t.Context()))
			case errors.Is(err, client.ErrLost):
				unanswered++
			default:
				t.Fatal(err)
			}
			f.eventually(withinSecond, "nothing is left", func() bool { return len(f.processes()) == 0 })
			f.noCgroupLeft()
		}
		t.Logf("%d of 10 executors died before they answered", unanswered)
	})
}

// exec'ed commands end with a lost executor too.
func TestExecDiesWithExecutor(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.runSleeper(place)
		x := f.shell("echo running; exec sleep 1000")
		x.expect("running")
		f.killExecutor()
		must(t, f.KillTask(t.Context()))
		f.eventually(withinSecond, "the command is gone too", func() bool { return len(f.processes()) == 0 })
		if err := x.finish(); err == nil {
			t.Error("the stream of a lost executor ended well")
		}
	})
}

// leashed starts an executor whose task ends with the returned file.
func leashed(t *testing.T) (*fixture, *os.File) {
	t.Helper()
	reader, writer, err := os.Pipe()
	must(t, err)
	f := startWith(t, func(o *client.Options) { o.ExtraFiles = []*os.File{reader} })
	must(t, reader.Close())
	t.Cleanup(func() { writer.Close() })
	return f, writer
}

func TestLeash(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f, leash := leashed(t)
		dir := filepath.Join(f.dir, "record")
		must(t, os.Mkdir(dir, 0o700))
		store := testkit.Value(record.Create(dir))(t)
		must(t, store.Close())
		f.run(family+"while :; do sleep 1000; done", place, func(r *proto.LaunchRequest) {
			r.LeashFd, r.KillGraceNs = 3, int64(100*time.Millisecond)
			r.Record = &proto.RecordOptions{Dir: dir}
		})
		f.expect("ready")
		f.expect("daemon")
		must(t, leash.Close())
		select {
		case <-f.Lost():
		case <-time.After(soon):
			t.Fatal("the executor has not ended with its leash")
		}
		f.noneLeftButExecutor()
		final := testkit.Value(record.Read(dir))(t)
		if final.State != record.Exited || final.Diagnosis.Verdict != record.Stopped {
			t.Errorf("the record says %s, %s", final.State, final.Diagnosis.Verdict)
		}
	})
}

// An executor that is to end with its task does, and takes its folder along. However short the task was, its caller
// is told of the end first.
func TestExitWithTask(t *testing.T) {
	t.Parallel()
	f := start(t)
	launched := f.run("exit 3", func(r *proto.LaunchRequest) { r.ExitWithTask = true })
	f.eventually(soon, "the task is gone", func() bool { return unix.Kill(int(launched.GetMain().GetPid()), 0) != nil })
	if exit, _ := f.wait(); exit.GetCode() != 3 {
		t.Errorf("it ended with %s", exit.GetSummary())
	}
	select {
	case <-f.Lost():
	case <-time.After(soon):
		t.Fatal("the executor has not ended with its task")
	}
	if _, err := os.Stat(f.Address().Folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
}

func TestReattach(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.run("mkfifo go; echo ready; read x < go; exit 9")
	f.expect("ready")
	address := f.Address()
	kept := testkit.Value(wire.ReadAddress(address.Folder))(t)
	if kept.Executor != address.Executor || kept.Main != address.Main || kept.Socket != address.Socket || kept.BootID != address.BootID {
		t.Errorf("the address on disk is %+v, the client's %+v", kept, address)
	}
	if _, err := client.Reattach(t.Context(), address, nil); !errors.Is(err, client.ErrOwned) {
		t.Errorf("reattach to what another one owns: %v", err)
	}
	visitor := f.visit() // which is no owner
	if _, err := visitor.Sample(t.Context(), 0, true); err != nil {
		t.Error(err)
	}
	must(t, f.Close())
	again := testkit.Value(client.Reattach(t.Context(), *kept, nil))(t)
	f.Client = again
	if got := again.Hello().GetLaunched().GetMain().GetPid(); got != f.launched.GetMain().GetPid() {
		t.Errorf("the task's main process is %d, was %d", got, f.launched.GetMain().GetPid())
	}
	f.write("go", "\n")
	if exit, _ := f.wait(); exit.GetCode() != 9 {
		t.Errorf("exit %v, want 9", exit)
	}
	must(t, visitor.Close())
}

func TestReattachRefused(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.runSleeper()
	must(t, f.Close())
	tests := []struct {
		name   string
		change func(*wire.Address)
		want   error
	}{
		{"another boot", func(a *wire.Address) { a.BootID, a.Socket = "another", "" }, client.ErrOtherBoot},
		{"another boot id, and it answers", func(a *wire.Address) { a.BootID = "another" }, kernel.InNamespace},
		{"another machine", func(a *wire.Address) { a.BootID, a.Host = "another", "x" }, kernel.ElsewhereError("running on x")},
		{"another PID namespace", func(a *wire.Address) { a.PIDNamespace = "pid:[1]" }, kernel.InNamespace},
		{"another time namespace", func(a *wire.Address) { a.TimeNamespace = "time:[1]" }, kernel.InNamespace},
		{"another start time", func(a *wire.Address) { a.Executor.Start++ }, client.ErrLost},
		{"another process", func(a *wire.Address) { a.Executor.PID = os.Getpid() }, client.ErrLost},
		{"no process", func(a *wire.Address) { a.Executor.PID = 1<<22 - 1 }, client.ErrLost},
		{"no folder", func(a *wire.Address) { a.Folder += "-gone" }, client.ErrLost},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			address := f.Address()
			tt.change(&address)
			if c, err := client.Reattach(t.Context(), address, nil); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
				if err == nil {
					c.Close()
				}
			}
			if tt.name == "no folder" {
				return // a visitor needs none
			}
			if c, err := client.Visit(t.Context(), address); !errors.Is(err, tt.want) {
				t.Errorf("visit: %v, want %v", err, tt.want)
				if err == nil {
					c.Close()
				}
			}
		})
	}
	// None of them has kept the lock, nor done anything to the task.
	again := testkit.Value(client.Reattach(t.Context(), f.Address(), nil))(t)
	f.Client = again
	if len(f.processes()) != 1 {
		t.Errorf("processes %v", f.processes())
	}
}

// A socket that another process serves is not taken for the executor.
func TestReattachToAnotherSocket(t *testing.T) {
	t.Parallel()
	f, other := start(t), start(t)
	f.runSleeper()
	other.runSleeper()
	must(t, f.Close())
	address := f.Address()
	address.Socket = other.Address().Socket
	if c, err := client.Reattach(t.Context(), address, nil); !errors.Is(err, client.ErrLost) {
		t.Errorf("%v, want that it is lost", err)
		if err == nil {
			c.Close()
		}
	}
	again := testkit.Value(client.Reattach(t.Context(), f.Address(), nil))(t)
	f.Client = again
}

// A task of an earlier boot is gone; nothing is signalled by numbers that belong to others now.
func TestKillTaskOfAnotherBoot(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.runSleeper()
	address := f.Address()
	address.BootID = "00000000-0000-0000-0000-000000000000"
	address.Folder = filepath.Join(f.dir, "folder")
	must(t, os.Mkdir(address.Folder, 0o700))
	if err := client.KillTask(t.Context(), address); !errors.Is(err, kernel.InNamespace) {
		t.Errorf("what answers is not of an earlier boot: %v", err)
	}
	address.Socket = ""
	testkit.NoError(t, client.KillTask(t.Context(), address))
	if len(f.processes()) == 0 {
		t.Error("the task was killed")
	}
	if _, err := os.Stat(address.Folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}

// TestOtherNamespaceEnds holds that an executor in another namespace has ended once it has no owner, no socket that
// answers and no process in its cgroup, and that nothing is done to it before.
func TestOtherNamespaceEnds(t *testing.T) {
	t.Parallel()
	needCgroup(t)
	for name, change := range map[string]func(*wire.Address){
		"PID":  func(a *wire.Address) { a.PIDNamespace = "pid:[1]" },
		"time": func(a *wire.Address) { a.TimeNamespace = "time:[1]" },
	} {
		t.Run(name, func(t *testing.T) { otherNamespaceEnds(t, change) })
	}
}

func otherNamespaceEnds(t *testing.T, change func(*wire.Address)) {
	t.Helper()
	f := start(t)
	f.run(family + "while :; do sleep 1000; done")
	f.expect("daemon")
	f.expect("ready")
	address := f.Address()
	change(&address)
	must(t, address.Write())
	refuses := func(when string) {
		t.Helper()
		for what, err := range map[string]error{
			"find": client.Find(address), "kill": client.KillTask(t.Context(), address),
			"end": client.End(t.Context(), address, 0, 0),
		} {
			if !errors.Is(err, kernel.InNamespace) {
				t.Errorf("%s, %s: %v", what, when, err)
			}
		}
		if _, err := os.Lstat(address.Folder); err != nil || len(f.processes()) == 0 {
			t.Fatalf("%s: something is gone: %v, %v", when, err, f.processes())
		}
	}
	refuses("it runs")
	ours := f.Address()
	visitor := testkit.Value(client.Visit(t.Context(), ours))(t)
	f.killExecutor()
	refuses("it has an owner")
	must(t, f.Close())
	f.Client = visitor
	refuses("its task has processes")
	must(t, client.KillProcesses(t.Context(), ours))
	if err := client.Find(address); !errors.Is(err, client.ErrOtherBoot) {
		t.Errorf("find, afterwards: %v", err)
	}
	testkit.NoError(t, client.KillTask(t.Context(), address))
	if _, err := os.Lstat(address.Folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

// The owner's death gives the executor free for the next one.
func TestOwnerDies(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.runSleeper()
	must(t, f.Close())
	addresses, err := client.List(filepath.Join(f.dir, "run"))
	if err != nil || len(addresses) != 1 {
		t.Fatalf("listed %v, %v", addresses, err)
	}
	if !client.Alive(*addresses[0]) {
		t.Error("the executor is not alive")
	}
	again := testkit.Value(client.Reattach(t.Context(), *addresses[0], nil))(t)
	f.Client = again
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	must(t, f.Stop(ctx, 0, 0))
	stream, err := f.Stats(ctx, time.Second, false)
	must(t, err)
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("stats of an ended task: %v", err)
	}
}

// TestEnd ends executors beside their owner, in whatever state they are.
func TestEnd(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*fixture){
		"running":          func(*fixture) {},
		"silent":           func(f *fixture) { must(f.t, unix.Kill(f.Address().Executor.PID, unix.SIGSTOP)) },
		"without a socket": func(f *fixture) { must(f.t, os.Remove(f.Address().Socket)) },
		"dead":             (*fixture).killExecutor,
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.runSleeper()
			before(f)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			testkit.NoError(t, client.End(ctx, f.Address(), 0, time.Second))
			f.noneLeftButExecutor()
			if _, err := os.Stat(f.Address().Folder); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("its directory: %v", err)
			}
			if client.Alive(f.Address()) {
				t.Error("it is alive")
			}
		})
	}
}
