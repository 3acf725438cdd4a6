// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/driver/sampling"
	"github.com/tachograph/tacho/executor"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestMain lets the test binary be the executor of the tasks under test. Tests mostly wait for processes, so more of them
// run at a time than there are CPUs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		syscall.Exit(executor.Main("test")) // with -race, os.Exit sleeps for a second
	}
	if len(os.Args) > 1 && os.Args[1] == "packet" {
		if _, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0); err != nil {
			panic(err)
		}
		os.Exit(0) // with the socket open
	}
	if len(os.Args) > 2 && os.Args[1] == "deaf" {
		os.Exit(deaf(os.Args[2]))
	}
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// limit bounds what a test waits for.
const limit = 60 * time.Second

// task is a running task and its executor.
type task struct {
	*client.Client
	t      testing.TB
	folder string
	done   chan struct{}
	final  *record.Record // set when done is closed
}

// run starts a shell in a cgroup, and ends it with the test.
func run(t testing.TB, script string, change func(*proto.LaunchRequest)) *task {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making cgroups takes root")
	}
	dir := testkit.Value(os.MkdirTemp("/tmp", "sampling"))(t)
	id := filepath.Base(dir)
	c := testkit.Value(client.Start(t.Context(), client.Options{RuntimeDir: filepath.Join(dir, "run"), ID: id}))(t)
	k := &task{Client: c, t: t, folder: dir, done: make(chan struct{})}
	request := &proto.LaunchRequest{
		Id: id, Command: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: dir,
		Stdio: &proto.Stdio{Mode: proto.Stdio_MODE_NULL}, Cgroup: &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_AUTO},
	}
	if change != nil {
		change(request)
	}
	if _, err := c.Launch(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	must(t, c.Confirm(t.Context()))
	go func() { // ends when the task has, which end sees to
		defer close(k.done)
		_, k.final, _ = c.Wait(context.WithoutCancel(t.Context()))
	}()
	t.Cleanup(k.end)
	return k
}

// end stops the task and its executor.
func (k *task) end() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := k.Stop(ctx, 0, 0)
	<-k.done
	must(k.t, errors.Join(err, k.Shutdown(ctx), k.Close(), os.RemoveAll(k.folder)))
}

// task is the task as a loop reads it.
func (k *task) task() sampling.Task {
	a := k.Address()
	return sampling.Task{
		ID: a.ID, Executor: k.Client, Process: a.Executor, Folder: a.Folder, Cgroup: a.Cgroup, Rows: true, Done: k.done,
	}
}

// newLoop returns a loop that ends with the test.
func newLoop(t testing.TB) *sampling.Loop {
	l := sampling.New(hclog.NewNullLogger(), false)
	t.Cleanup(l.Close)
	return l
}

// open opens a stream.
func open(t *testing.T, l *sampling.Loop, k *task, interval time.Duration) *sampling.Stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	s := testkit.Value(l.Open(ctx, k.task(), interval))(t)
	return s
}

// drain receives to the end of a stream.
func drain(s *sampling.Stream) {
	for err := error(nil); err == nil; _, err = s.Recv() {
	}
}

func recv(t *testing.T, s *sampling.Stream) *procstats.Sample {
	t.Helper()
	sample := testkit.Value(s.Recv())(t)
	return sample
}

// givenGroup makes a group in every hierarchy, as a host does that keeps it.
func givenGroup(t *testing.T) *proto.CgroupPlacement {
	t.Helper()
	mounts := testkit.Value(kernel.CgroupMounts(kernel.HostFS()))(t)
	given := &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_GIVEN, V1: map[string]string{}}
	for _, mount := range mounts {
		if mount.ReadOnly || mount.Version == 1 && len(mount.Controllers) == 0 {
			continue
		}
		dir, err := os.MkdirTemp(mount.Point, "tacho-sampling-")
		if err != nil {
			t.Skipf("no cgroup can be made: %v", err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Errorf("remove cgroup: %v", err)
			}
		})
		if mount.Version == 2 {
			given.V2 = dir
		}
		for _, controller := range mount.Controllers {
			if mount.Version == 1 && controller != "cpuset" { // a new one has no CPUs yet
				given.V1[controller] = dir
			}
		}
	}
	return given
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
