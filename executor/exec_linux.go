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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
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

const (
	// execBuffer is the most that one message of output holds.
	execBuffer = 8 << 10
	// execQuiet is how long a stream of an ended command is read on while nothing comes: by then a process that wrote
	// for it, as the last part of a pipeline does, has done so. A daemon that it left behind may hold the stream for
	// ever.
	execQuiet = 200 * time.Millisecond
	// execOver is how long output of others is passed on after the end of the command.
	execOver = 5 * time.Second
	// endOfInput is what a terminal takes for the end of its input, termios(3) VEOF.
	endOfInput = 0x04
)

// execStdio is the executor's side of the standard streams of an exec'ed command.
type execStdio struct {
	// streams are the command's side.
	streams *streams
	// stdin is the writing end of a pipe, or the terminal.
	stdin *os.File
	// stdout and stderr are reading ends of pipes; of a terminal there is only stdout.
	stdout, stderr *os.File
	terminal       bool
	// over is the time of the command's end; nil before.
	over atomic.Pointer[time.Time]
}

// openExecStdio makes a terminal, or three pipes, for a user.
func openExecStdio(terminal bool, credential *syscall.Credential) (*execStdio, error) {
	x := &execStdio{streams: &streams{terminal: terminal}, terminal: terminal}
	open := x.openPipes
	if terminal {
		open = x.openTerminal
	}
	err := open()
	if err == nil {
		err = giveTo(credential, x.streams.files...)
	}
	if err != nil {
		x.streams.started()
		x.close()
		return nil, fmt.Errorf("exec: %w", err)
	}
	return x, nil
}

// openPipes makes three pipes. Our ends wait in the runtime's poller; the command's block, as every command expects,
// because their descriptors are taken.
func (x *execStdio) openPipes() error {
	for _, ours := range []**os.File{&x.stdin, &x.stdout, &x.stderr} {
		own, theirs, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("make pipe: %w", err)
		}
		if ours == &x.stdin {
			own, theirs = theirs, own
		}
		x.streams.add(theirs)
		*ours = own
	}
	return nil
}

// openTerminal makes a pseudo terminal.
func (x *execStdio) openTerminal() error {
	master, slave, err := pty.Open()
	if err != nil {
		return fmt.Errorf("make terminal: %w", err)
	}
	defer master.Close()
	x.streams.files = append(x.streams.files, slave)
	for range 3 {
		x.streams.task = append(x.streams.task, slave.Fd())
	}
	// pty's calls have made the master blocking; a copy waits in the runtime's poller, and its reads can be ended.
	own, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("make terminal: %w", err)
	}
	if err := unix.SetNonblock(own, true); err != nil {
		return errors.Join(fmt.Errorf("make terminal: %w", err), unix.Close(own))
	}
	x.stdout = os.NewFile(uintptr(own), "terminal")
	x.stdin = x.stdout
	return nil
}

// writeInput gives the command input. One that does not want it any more is no error.
func (x *execStdio) writeInput(p []byte) {
	_, _ = x.stdin.Write(p) // as said
}

// closeInput says that no input comes any more.
func (x *execStdio) closeInput() {
	if x.terminal {
		x.writeInput([]byte{endOfInput})
		return
	}
	_ = x.stdin.Close() // it may be closed already
}

// resize sets the size of the terminal; the kernel tells the command by SIGWINCH. Without one it does nothing.
func (x *execStdio) resize(size *proto.WindowSize) error {
	if !x.terminal {
		return nil
	}
	raw, err := x.stdout.SyscallConn()
	if err != nil {
		return err
	}
	const most = 1<<16 - 1
	window := &unix.Winsize{Row: uint16(min(size.GetRows(), most)), Col: uint16(min(size.GetColumns(), most))}
	controlErr := raw.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, window) })
	return errors.Join(controlErr, err)
}

// pass sends what is written to a stream until no process has it open any more, or the command has ended and nothing
// comes. If the caller does not read it the stream is closed, and its writers get SIGPIPE.
func (x *execStdio) pass(from *os.File, send func([]byte) error) {
	buffer := make([]byte, execBuffer)
	for {
		if x.over.Load() != nil {
			x.readUntilQuiet(from)
		}
		n, err := from.Read(buffer)
		if n > 0 {
			if err := send(buffer[:n]); err != nil {
				_ = from.Close() // a reader has nothing to lose
				return
			}
		}
		// A short read has emptied the stream; what came after the command's end is not its own.
		over := x.over.Load()
		late := over != nil && time.Since(*over) > execOver && n < len(buffer)
		if err != nil || late { // EIO is the end of a terminal, pty(7)
			return
		}
	}
}

// isOver makes reads end soon that wait for output of an ended command.
func (x *execStdio) isOver() {
	x.over.Store(new(time.Now()))
	for _, f := range []*os.File{x.stdout, x.stderr} {
		if f != nil {
			x.readUntilQuiet(f)
		}
	}
}

func (x *execStdio) readUntilQuiet(f *os.File) {
	// It can only have been closed, and then reads end anyway.
	_ = f.SetReadDeadline(time.Now().Add(execQuiet)) // as said
}

func (x *execStdio) close() {
	for _, f := range []*os.File{x.stdin, x.stdout, x.stderr} {
		if f != nil {
			_ = f.Close() // some are closed already; nothing can be lost
		}
	}
}
