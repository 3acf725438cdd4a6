// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package skew

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

const deadline = 20 * time.Second

// Nothing of the first protocol's wire is gone or means something else.
func TestWireOnlyGrows(t *testing.T) {
	rig.Require(t)
	const golden = "executor/proto/testdata/wire.golden"
	if _, err := git("rev-parse", "--verify", "--quiet", first+"^{commit}"); err != nil {
		t.Skip(errNoFirst)
	}
	before := testkit.Value(git("show", first+":"+golden))(t)
	top := testkit.Value(git("rev-parse", "--show-toplevel"))(t)
	now := testkit.Value(os.ReadFile(filepath.Join(strings.TrimSpace(string(top)), golden)))(t)
	lines := strings.Split(string(now), "\n")
	for line := range strings.SplitSeq(string(before), "\n") {
		if !slices.Contains(lines, line) {
			t.Errorf("gone, or changed: %s", line)
		}
	}
}

// TestOldExecutor has today's client talk to an executor of the other build, and to one of its own.
func TestOldExecutor(t *testing.T) {
	for name, binary := range map[string]func(testing.TB) string{
		"today's": func(t testing.TB) string { rig.Require(t); return rig.Tacho() },
		firstName: other,
	} {
		t.Run(name, func(t *testing.T) { converse(t, binary(t)) })
	}
}

// converse is everything that a client says to an executor.
func converse(t *testing.T, binary string) {
	place := rig.NewPlace(t, rig.Self())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Start(ctx, client.Options{Binary: binary, RuntimeDir: place.Path("run"), ID: "skew"})
	testkit.Must(t, err)
	t.Logf("executor %s", c.Hello().GetBuild())
	launch(ctx, t, c, place)
	watch(ctx, t, c)
	command(ctx, t, c)
	// Its caller goes and comes back, as after an upgrade.
	address := testkit.Value(wire.ReadAddress(c.Address().Folder))(t)
	testkit.Must(t, c.Close())
	if c, err = client.Reattach(ctx, *address, nil); err != nil {
		t.Fatal(err)
	}
	testkit.NoError(t, c.Signal(ctx, unix.SIGUSR1, false))
	rig.Eventually(t, deadline, "the signal has come", func() bool {
		text, err := os.ReadFile(filepath.Join(place.Path("logs"), "skew.stdout.0"))
		return err == nil && strings.Contains(string(text), "got it")
	})
	testkit.NoError(t, c.Stop(ctx, 0, deadline))
	end(ctx, t, c)
}

func launch(ctx context.Context, t *testing.T, c *client.Client, place *rig.Place) {
	t.Helper()
	testkit.Must(t, os.Mkdir(place.Path("logs"), 0o700))
	launched := testkit.Value(c.Launch(ctx, &proto.LaunchRequest{
		Id: "skew", Command: "/bin/sh", Env: place.Env(), Dir: place.Dir,
		Args: []string{"-c", "trap 'echo got it' USR1; trap 'exit 3' TERM; echo ready; while :; do sleep 0.02; done"},
		Stdio: &proto.Stdio{Mode: proto.Stdio_MODE_LOGS, Logs: &proto.Logs{
			Dir: place.Path("logs"), Prefix: "skew", MaxFileBytes: 1 << 20, MaxFiles: 2,
		}},
		Cgroup: &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_AUTO},
	}))(t)
	if launched.GetMain().GetPid() <= 0 || launched.GetMain().GetStart() == 0 {
		t.Errorf("launched %v", launched)
	}
	rig.Eventually(t, deadline, "the task is ready", func() bool {
		text, err := os.ReadFile(filepath.Join(place.Path("logs"), "skew.stdout.0"))
		return err == nil && strings.Contains(string(text), "ready")
	})
}

// watch reads samples, one by one and as a stream, and the events so far.
func watch(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := testkit.Value(c.Stats(ctx, 50*time.Millisecond, true))(t)
	var window procstats.Window
	for range 4 {
		sample := testkit.Value(stream.Recv())(t)
		window.Add(sample)
	}
	sample := testkit.Value(c.Sample(ctx, 0, true))(t)
	for _, h := range procstats.Headlines(sample, procstats.History{Window: &window}) {
		if h.ID == procstats.HeadlineCPU || h.ID == procstats.HeadlineMemory {
			if !h.Reading.Present() {
				t.Errorf("no %s: %s", h.ID, h.Reading.Reason())
			}
		}
	}
	if len(sample.Processes) == 0 {
		t.Error("a sample without rows")
	}
	events := testkit.Value(c.Events(ctx))(t)
	if first, err := events.Recv(); err != nil || first.GetKind() != "launched" {
		t.Errorf("first event %v, %v", first, err)
	}
}

// command runs another command in the task.
func command(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	stream := testkit.Value(c.Exec(ctx))(t)
	for _, m := range []*proto.ExecRequest{
		{Message: &proto.ExecRequest_Setup{Setup: &proto.ExecSetup{Command: []string{"sh", "-c", "cat; exit 5"}}}},
		{Message: &proto.ExecRequest_Stdin{Stdin: []byte("there and back")}},
		{Message: &proto.ExecRequest_StdinClose{StdinClose: true}},
	} {
		testkit.Must(t, stream.Send(m))
	}
	var output strings.Builder
	var code int32 = -1
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		testkit.Must(t, err)
		output.Write(m.GetStdout())
		if m.GetExit() != nil {
			code = m.GetExit().GetCode()
		}
	}
	if output.String() != "there and back" || code != 5 {
		t.Errorf("command: output %q, code %d", output.String(), code)
	}
}

func end(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	exit, final, err := c.Wait(ctx)
	testkit.Must(t, err)
	if exit.GetCode() != 3 || exit.GetVerdict() != string(record.Stopped) {
		t.Errorf("exit %v", exit)
	}
	if final.State != record.Exited || final.Headline[procstats.HeadlineCPU.String()].Value == nil {
		t.Errorf("record: state %s, headlines %v", final.State, final.Headline)
	}
	testkit.NoError(t, c.Shutdown(ctx))
	testkit.NoError(t, c.Close())
}
