// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/testkit"
)

// bare is an executor whose caller is the test itself, without a client: the test can die for it.
type bare struct {
	*fixture
	proto.ExecutorClient
	conn   *grpc.ClientConn
	stdout *os.File // what only the caller reads
	ended  chan struct{}
	folder string
	gate   string // a FIFO: a start with it as its network namespace lasts until it is opened
	// answered is closed when the start at the gate is.
	answered chan struct{}
}

func startBare(t *testing.T) *bare {
	t.Helper()
	dir := shortDir(t)
	b := &bare{ended: make(chan struct{}), folder: filepath.Join(dir, "run", "e"), gate: filepath.Join(dir, "gate")}
	b.fixture = &fixture{
		t: t, dir: dir, mark: fmt.Sprintf("%d-%d", os.Getpid(), fixtures.Add(1)), out: filepath.Join(dir, "out"), err: filepath.Join(dir, "err"),
	}
	must(t, os.MkdirAll(b.folder, 0o700))
	must(t, unix.Mkfifo(b.gate, 0o600))
	cmd := exec.Command(self(), "executor", "test")
	cmd.Env = []string{
		wire.Cookie, wire.SocketDir + "=" + b.folder,
	}
	ours, theirs, err := os.Pipe()
	must(t, err)
	b.stdout = ours
	cmd.Stdout = theirs
	must(t, cmd.Start())
	theirs.Close()
	go func() {
		defer close(b.ended)
		_ = cmd.Wait() // that it ends is what counts
	}()
	line := testkit.Value(bufio.NewReader(b.stdout).ReadString('\n'))(t)
	socket := strings.Split(line, "|")[3]
	if b.conn, err = grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	b.ExecutorClient = proto.NewExecutorClient(b.conn)
	t.Cleanup(func() {
		b.stdout.Close()
		b.conn.Close()
	})
	return b
}

// die is what the kernel does for a caller that is killed.
func (b *bare) die() {
	b.conn.Close()
	b.stdout.Close()
}

// push opens the gate for a start that waits there.
func (b *bare) push() {
	if fd, err := unix.Open(b.gate, unix.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
		_ = unix.Close(fd)
	}
}

// open lets a start go on that waits at the gate, or is about to.
func (b *bare) open() {
	b.t.Helper()
	b.eventually(soon, "the start is over", func() bool {
		b.push()
		select {
		case <-b.answered:
			return true
		default:
			return false
		}
	})
}

// call makes an event happen, and returns the answer where there is one.
type call func(ctx context.Context, b *bare) error

func calls() map[string]call {
	return map[string]call{
		"Launch": func(ctx context.Context, b *bare) error {
			_, err := b.Launch(ctx, b.request("exec sleep 1000"))
			return err
		},
		"any call": func(ctx context.Context, b *bare) error {
			_, err := b.Hello(ctx, &proto.HelloRequest{ProtocolMin: 1, ProtocolMax: 1})
			return err
		},
		"Stop": func(ctx context.Context, b *bare) error {
			_, err := b.Stop(ctx, &proto.StopRequest{Signal: 9})
			return err
		},
		"Shutdown": func(ctx context.Context, b *bare) error {
			_, err := b.Shutdown(ctx, &proto.ShutdownRequest{})
			return err
		},
		"caller gone": func(_ context.Context, b *bare) error {
			b.die()
			return nil
		},
	}
}

// phaseTest brings an executor into a phase.
type phaseTest struct {
	name  string
	enter func(b *bare)
	// rejected are the calls that are, and ends the events that end the executor.
	rejected, ends []string
}

func (b *bare) mustLaunch(script string) {
	b.t.Helper()
	if _, err := b.Launch(b.t.Context(), b.request(script)); err != nil {
		b.t.Fatal(err)
	}
}

func phaseTests() []phaseTest {
	return []phaseTest{
		{"waiting", func(*bare) {}, []string{"Stop"}, []string{"Shutdown", "caller gone"}},
		{"launching", func(b *bare) {
			request := b.request("exec sleep 1000")
			request.NetworkNamespace = b.gate
			b.answered = make(chan struct{})
			go func() {
				defer close(b.answered)
				_, _ = b.Launch(b.t.Context(), request) // a FIFO is no namespace: it fails
			}()
			b.eventually(soon, "the start is about to fork", func() bool {
				address, err := wire.ReadAddress(b.folder)
				return err == nil && address.Socket != ""
			})
		}, []string{"Launch", "Stop", "Shutdown"}, []string{"caller gone"}},
		{"refused", func(b *bare) {
			request := b.request("")
			request.Command = "/nonexistent"
			if _, err := b.Launch(b.t.Context(), request); status.Code(err) != codes.NotFound {
				b.t.Fatal(err)
			}
		}, []string{"Launch", "Stop"}, []string{"Shutdown", "caller gone"}},
		{"unconfirmed", func(b *bare) { b.mustLaunch("exec sleep 1000") }, []string{"Launch", "Shutdown"}, []string{"caller gone"}},
		{"running", func(b *bare) {
			b.mustLaunch("exec sleep 1000")
			must(b.t, calls()["any call"](b.t.Context(), b))
		}, []string{"Launch", "Shutdown"}, nil},
		{"exited", func(b *bare) {
			b.mustLaunch("exit 0")
			if _, err := b.Wait(b.t.Context(), &proto.WaitRequest{}); err != nil {
				b.t.Fatal(err)
			}
		}, []string{"Launch"}, []string{"Shutdown"}},
	}
}

// TestPhases makes each event happen in each phase of an executor's life that lasts, and holds that nothing is left.
func TestPhases(t *testing.T) {
	t.Parallel()
	for _, phase := range phaseTests() {
		for name, do := range calls() {
			t.Run(phase.name+"/"+name, func(t *testing.T) {
				b := startBare(t)
				phase.enter(b)
				answer := make(chan error, 1)
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				go func() { answer <- do(ctx, b) }()
				if phase.name == "launching" && name == "Stop" {
					b.mustStay() // it waits for the start
					b.open()
				}
				err := <-answer
				if rejected := status.Code(err) == codes.FailedPrecondition; rejected != slices.Contains(phase.rejected, name) || err != nil && !rejected {
					t.Errorf("the answer is %v", err)
				}
				ends := slices.Contains(phase.ends, name)
				if phase.name == "launching" {
					b.open()
				}
				if ends {
					b.mustEnd()
					return
				}
				b.mustStay()
				b.finish()
			})
		}
	}
}

// mustStay holds that the executor does not end.
func (b *bare) mustStay() {
	b.t.Helper()
	select {
	case <-b.ended:
		b.t.Error("the executor has ended")
	case <-time.After(100 * time.Millisecond):
	}
}

// mustEnd holds that the executor ends by itself and leaves nothing.
func (b *bare) mustEnd() {
	b.t.Helper()
	b.eventually(soon, "the executor has ended", func() bool {
		b.push() // the start of a caller that is gone may have come to the gate since
		select {
		case <-b.ended:
			return true
		default:
			return false
		}
	})
	b.noneLeft()
}

// finish ends an executor by its calls, of a new connection: that of the test may be closed.
func (b *bare) finish() {
	b.t.Helper()
	conn, err := grpc.NewClient(b.conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(b.t, err)
	defer conn.Close()
	executor := proto.NewExecutorClient(conn)
	ctx, cancel := context.WithTimeout(b.t.Context(), soon)
	defer cancel()
	if _, err := executor.Stop(ctx, &proto.StopRequest{Signal: 9}); err != nil && status.Code(err) != codes.FailedPrecondition {
		b.t.Error(err)
	}
	if _, err := executor.Shutdown(ctx, &proto.ShutdownRequest{}); err != nil {
		b.t.Error(err)
	}
	b.mustEnd()
}

// TestGivenUpAnywhere cancels starts at any moment, or lets their caller die then: nothing is left of any.
func TestGivenUpAnywhere(t *testing.T) {
	t.Parallel()
	ways := map[string]func(b *bare, cancel func()){
		"canceled": func(_ *bare, cancel func()) { cancel() },
		"stopped": func(b *bare, _ func()) {
			ctx, cancel := context.WithTimeout(b.t.Context(), soon)
			defer cancel()
			// Rejected before the start, and after one that was given up.
			if _, err := b.Stop(ctx, &proto.StopRequest{Signal: 9}); err != nil && status.Code(err) != codes.FailedPrecondition {
				b.t.Error(err)
			}
		},
		"caller gone": func(b *bare, _ func()) { b.die() },
	}
	const tries = 12
	for name, giveUp := range ways {
		t.Run(name, func(t *testing.T) {
			for range tries {
				b := startBare(t)
				ctx, cancel := context.WithCancel(t.Context())
				var launching sync.WaitGroup
				launching.Go(func() { _, _ = b.Launch(ctx, b.request("exec sleep 1000")) })
				<-time.After(rand.N(40 * time.Millisecond))
				giveUp(b, cancel)
				launching.Wait()
				cancel()
				if name == "stopped" {
					b.finish()
					continue
				}
				b.die() // who gave the start up, or has not confirmed it
				b.mustEnd()
			}
		})
	}
}

// TestFolderRemoved removes the directory of an executor: nobody would find it again, so it ends with its task.
func TestFolderRemoved(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"running": "exec sleep 1000", "exited": "exit 3"} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.run(script)
			if name == "exited" {
				f.wait()
			}
			_ = os.RemoveAll(f.Address().Folder) // the executor notices while this removes, and may write to its log
			select {
			case <-f.Lost():
			case <-time.After(soon):
				t.Error("the executor is still there")
			}
			f.noneLeftButExecutor()
		})
	}
}

// TestAbandon gives up starts at any moment as a driver does.
func TestAbandon(t *testing.T) {
	t.Parallel()
	for range 12 {
		f := &fixture{t: t, dir: t.TempDir(), mark: fmt.Sprintf("%d-%d", os.Getpid(), fixtures.Add(1)), out: os.DevNull, err: os.DevNull}
		options := client.Options{Binary: self(), RuntimeDir: shortDir(t), ID: "test-" + f.mark}
		c := testkit.Value(client.Start(t.Context(), options))(t)
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(30*time.Millisecond))
		_, launchErr := c.Launch(ctx, f.request("exec sleep 1000"))
		cancel()
		if err := c.Abandon(); err != nil {
			t.Errorf("after the start answered %v: %v", launchErr, err)
		}
		if client.Alive(c.Address()) || len(f.processes()) > 0 {
			t.Errorf("after the start answered %v: the executor runs: %t, processes %v", launchErr, client.Alive(c.Address()), f.processes())
		}
		if left, err := os.ReadDir(options.RuntimeDir); err != nil || len(left) > 0 {
			t.Errorf("after the start answered %v: left %v, %v", launchErr, left, err)
		}
	}
}

// shortDir is a runtime directory: the path of a unix socket is limited to 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir := testkit.Value(os.MkdirTemp("/tmp", "tacho"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
