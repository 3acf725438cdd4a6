// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/proto"
)

// execStream is what Exec is served over.
type execStream = grpc.BidiStreamingServer[proto.ExecRequest, proto.ExecResponse]

// execution is a command that runs in the task, beside its main process.
type execution struct {
	task *task
	// pid is also the number of its session and of its process group.
	pid int
	end <-chan ended
	*execStdio
}

// Exec implements proto.ExecutorServer. The caller's cancellation, or death, kills the command's process group.
func (e *Executor) Exec(stream execStream) error {
	t, err := e.live()
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	setup := first.GetSetup()
	if setup == nil || len(setup.GetCommand()) == 0 {
		return status.Error(codes.InvalidArgument, "exec: the first message must be a setup with a command")
	}
	x, err := e.startExec(stream.Context(), t, setup)
	if err != nil {
		return err
	}
	return x.serve(stream)
}

// startExec starts the command as the main process was started: same cgroup, namespaces, user, folder, environment.
func (e *Executor) startExec(ctx context.Context, t *task, setup *proto.ExecSetup) (*execution, error) {
	c := *t.base
	c.argv = setup.GetCommand()
	c.env = mergeEnvironment(t.base.env, setup.GetEnv())
	if setup.GetTty() {
		// Programs for terminals give up without it, and a task that has no terminal does not set it.
		c.env = mergeEnvironment([]string{"TERM=xterm"}, c.env)
	}
	if err := checkAnswers(ctx, c.dir); err != nil {
		return nil, status.Error(codes.Aborted, "exec: "+err.Error())
	}
	var err error
	if c.path, err = findExecutable(c.argv[0], c.env, c.dir); err != nil {
		return nil, err
	}
	stdio, err := openExecStdio(setup.GetTty(), c.credential)
	if err != nil {
		return nil, status.Error(shortageOr(codes.InvalidArgument, err), err.Error())
	}
	c.streams = stdio.streams
	pid, end, err := t.children.startBeside(t.main.PID, func() (int, error) { return e.launcher.fork(ctx, &c) })
	stdio.streams.started()
	switch {
	case errors.Is(err, errNotRunning):
		stdio.close()
		return nil, status.Error(codes.FailedPrecondition, "exec: the task's main process has ended")
	case err != nil:
		stdio.close()
		return nil, startError(&c, err)
	}
	return &execution{task: t, pid: pid, end: end, execStdio: stdio}, nil
}

// checkAnswers looks at a directory whose file system may hang: a fork that waits for it there would hold up the
// whole executor, and a look holds up one goroutine, for as long. That the directory is missing the fork will say.
func checkAnswers(ctx context.Context, dir string) error {
	const patience = 10 * time.Second
	switch answers := within(ctx, patience, func() { _, _ = os.Stat(dir) }); {
	case answers:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("the file system of %s does not answer", dir)
}

// mergeEnvironment returns the variables of base and more; those of more count where both have one. A variable that
// is there twice has another value for every library that reads it.
func mergeEnvironment(base, more []string) []string {
	merged := slices.DeleteFunc(slices.Clone(base), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.ContainsFunc(more, func(other string) bool { return strings.HasPrefix(other, name+"=") })
	})
	return append(merged, more...)
}

// serve passes the command's streams on until it has ended, and tells how.
func (x *execution) serve(stream execStream) error {
	defer x.close()
	ctx := stream.Context()
	defer context.AfterFunc(ctx, x.kill)()
	// It ends with the stream, which the return from here ends, and cannot be waited for before.
	go x.feed(stream)
	sender := &execSender{stream: stream}
	var sending sync.WaitGroup
	sending.Go(func() { x.pass(x.stdout, sender.stdout) })
	if x.stderr != nil {
		sending.Go(func() { x.pass(x.stderr, sender.stderr) })
	}
	end := <-x.end
	x.isOver()
	sending.Wait()
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return sender.exit(end.status)
}

// kill ends the command's process group. What left it belongs to the task, and ends with the task.
func (x *execution) kill() {
	err := x.task.children.signal(x.pid, unix.SIGKILL, true)
	if err != nil && !errors.Is(err, process.ErrGone) {
		x.task.log.Error("kill exec command", "pid", x.pid, "error", err)
	}
}

// feed passes on what the caller sends. A command that does not read its input stops it, and so the caller.
func (x *execution) feed(stream execStream) {
	for {
		m, err := stream.Recv()
		if err != nil {
			// Of the caller's end, by which no more input comes; where the stream broke the command is killed.
			x.closeInput()
			return
		}
		switch message := m.GetMessage().(type) {
		case *proto.ExecRequest_Stdin:
			x.writeInput(message.Stdin)
		case *proto.ExecRequest_StdinClose:
			if message.StdinClose {
				x.closeInput()
			}
		case *proto.ExecRequest_Window:
			if err := x.resize(message.Window); err != nil {
				x.task.log.Debug("resize terminal of exec command", "error", err)
			}
		}
	}
}

// execSender sends from several goroutines over a stream, which takes one message at a time. It holds nothing back:
// a caller that does not read stops the command's writing.
type execSender struct {
	mu     sync.Mutex // guards following
	stream execStream
}

func (s *execSender) stdout(p []byte) error {
	return s.send(&proto.ExecResponse{Message: &proto.ExecResponse_Stdout{Stdout: p}})
}

func (s *execSender) stderr(p []byte) error {
	return s.send(&proto.ExecResponse{Message: &proto.ExecResponse_Stderr{Stderr: p}})
}

func (s *execSender) exit(end unix.WaitStatus) error {
	code, signal := exitCode(end)
	exit := &proto.ExecExit{Code: int32(code), Signal: int32(signal)}
	return s.send(&proto.ExecResponse{Message: &proto.ExecResponse_Exit{Exit: exit}})
}

func (s *execSender) send(m *proto.ExecResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stream.Send(m); err != nil {
		return fmt.Errorf("send output: %w", err)
	}
	return nil
}
