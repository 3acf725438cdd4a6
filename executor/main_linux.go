// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/internal/removal"
)

// Main is the executor process. It returns the exit code when its task and its caller are done with it.
func Main(build string) int {
	var inherited []os.Signal
	if os.Getenv(wire.KeepIgnored) != "" {
		inherited = ignoredSignals()
	}
	surviveSignals(inherited)
	keepDescriptors()
	folder := os.Getenv(wire.SocketDir)
	log := newLog(folder)
	e, err := newExecutor(log, build, folder)
	if err == nil {
		err = e.announce()
	}
	var listener net.Listener
	if err == nil {
		listener, err = e.listen()
	}
	if err != nil {
		fmt.Fprint(os.Stderr, wire.ErrorPrefix, err, "\n") // where the caller looks
		return 1
	}
	e.start()
	if os.Getenv(wire.Samples) != "" {
		e.work.Go(e.loadPrograms)
	}
	failpoint.At("executor.serve")
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := e.serve(listener); err != nil {
			log.Error("serve", "error", err)
		}
	}()
	select {
	case <-served:
		e.endWith(onEnd, 0, (*task).kill)
		<-e.ctx.Done()
	case <-e.ctx.Done():
	}
	e.stopServing()
	if e.left {
		log.Error("task cannot be killed; its directory is left for tacho executors kill", "after", endLimit)
		return 1
	}
	e.close()
	failpoint.At("executor.exit")
	if folder != "" {
		if err := removal.All(context.Background(), folder); err != nil {
			log.Error("remove own directory", "error", err)
		}
	}
	return 0
}

// announce writes the address: who comes for the task of a dead caller finds an executor that has not been asked for
// it yet.
func (e *Executor) announce() error {
	e.owner = wire.OwnerOf(os.Getenv)
	if len(os.Args) <= 2 || e.folder == "" {
		return nil
	}
	return e.writeAddress(&wire.Address{ID: os.Args[2]})
}

// listen creates the socket, for this user alone.
func (e *Executor) listen() (net.Listener, error) {
	defer unix.Umask(unix.Umask(0o177))
	listener, err := wire.Listen()
	if err == nil && e.folder != "" {
		e.listensAt = listener.Addr().String()
	}
	return listener, err
}

// keepDescriptors keeps what this process inherited from its task, which gets what its caller names in Launch and
// nothing else: neither the leash nor what a shell above an agent left open. It gives up its caller's standard input,
// which whose writer must see the end.
func keepDescriptors() {
	const first = 3
	if null, err := os.Open(os.DevNull); err == nil {
		// What it is good for works without; and nothing was read from it.
		_ = unix.Dup3(int(null.Fd()), 0, 0)
		_ = null.Close()
	}
	if unix.CloseRange(first, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil { // since Linux 5.11
		return
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
}

// ignoredSignals lists the signals that our caller ignores, which the task is to ignore as well: nohup(1), and
// the shell's background jobs. The Go runtime keeps only SIGHUP and SIGINT as they were found; a shell ignores SIGQUIT
// together with SIGINT.
func ignoredSignals() []os.Signal {
	var list []os.Signal
	if signal.Ignored(unix.SIGHUP) {
		list = append(list, unix.SIGHUP)
	}
	if signal.Ignored(unix.SIGINT) {
		list = append(list, unix.SIGINT, unix.SIGQUIT)
	}
	return list
}

// surviveSignals keeps the executor alive when its caller's terminal or pipe is gone, or interrupted. The signals are
// caught and not ignored, because a task inherits what is ignored.
func surviveSignals(inherited []os.Signal) {
	never := make(chan os.Signal, 1) // never read: what does not fit is dropped
	signal.Notify(never, unix.SIGPIPE, unix.SIGHUP, unix.SIGINT)
	if len(inherited) > 0 {
		signal.Ignore(inherited...)
	}
}

// answerLimit is how long the executor's end waits for answers that are on their way.
const answerLimit = time.Second

// stopServing lets the answers leave that the end of the task, or of the executor, has brought about.
func (e *Executor) stopServing() {
	if server := e.server.Load(); server != nil {
		within(context.Background(), answerLimit, server.GracefulStop) // a start that the kernel holds up has no answer
	}
}

// serve tells the caller where the executor listens, and serves until it is stopped.
func (e *Executor) serve(listener net.Listener) error {
	server := e.newServer()
	if _, err := os.Stdout.WriteString(wire.Line(listener.Addr().String())); err != nil {
		return errors.Join(err, listener.Close())
	}
	return server.Serve(listener)
}

// newServer keeps the buffers of a server with one caller small: the executor's memory is paid for by every task.
func (e *Executor) newServer() *grpc.Server {
	const buffer = 4 << 10
	server := grpc.NewServer(
		grpc.ReadBufferSize(buffer), grpc.WriteBufferSize(buffer),
		// What a caller may send ahead of a command that does not read its input; it would grow up to 16 MiB.
		grpc.StaticStreamWindowSize(wire.Window), grpc.StaticConnWindowSize(wire.Window),
	)
	proto.RegisterExecutorServer(server, e)
	e.server.Store(server)
	return server
}

// newLog writes into the executor's own folder: the caller's pipe would block if it is not read.
func newLog(folder string) hclog.Logger {
	var out io.Writer = io.Discard
	if folder != "" {
		out = &boundedLog{path: filepath.Join(folder, "executor.log")}
	}
	return hclog.New(&hclog.LoggerOptions{Name: "executor", Level: hclog.Info, Output: out, JSONFormat: true})
}
