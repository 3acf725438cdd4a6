// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/command/rundir"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// session is one tacho run from its start to its exit code.
type session struct {
	options *runOptions
	cmd     *cobra.Command
	id      string
	dir     string // the run's folder; empty with --no-files
	// above are the folders that were made for it, the innermost first.
	above     []string
	path      string
	args      []string
	selection procstats.Selection
	// killSignal asks the command to end.
	killSignal syscall.Signal
	// output gets what --format asks for; nil for stderr.
	output *recordOutput

	// held is open until the run has begun; nil with --no-files.
	held *os.File

	streams *sessionStreams
	client  *client.Client
	screen  *screen
}

func run(cmd *cobra.Command, o *runOptions, selection procstats.Selection, path string, args []string) error {
	s := &session{options: o, cmd: cmd, path: path, args: args, selection: selection}
	s.id = fmt.Sprintf("%s-%d", time.Now().Format("20060102T150405"), os.Getpid())
	return s.run(cmd.Context())
}

func (s *session) run(ctx context.Context) error {
	var err error
	if s.killSignal, err = parseSignal(s.options.killSignal); err != nil {
		return err
	}
	if s.output, err = s.options.openOutput(); err != nil {
		return err
	}
	if err := s.makeFolder(); err != nil {
		return errors.Join(err, s.output.discard())
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded()...)
	if signal.Ignored(unix.SIGINT) {
		signal.Ignore(unix.SIGQUIT) // a shell ignores both for its background jobs; Go keeps only the one
	}
	defer signal.Stop(signals)
	// Whoever hears what we say of the command may leave: then writing fails, and the command goes on. It has the
	// signal's default, because it is caught and not ignored. To the end, for an error is told then.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // nobody reads it: what does not fit is dropped
	launched, err := s.start(ctx)
	if s.held != nil {
		_ = s.held.Close() // only gives the folder up
	}
	if errors.Is(err, client.ErrLost) && s.client != nil {
		return s.lost() // the command may have run
	}
	if err != nil {
		return errors.Join(err, s.output.discard(), s.removeFolder())
	}
	if err := s.output.empty(); err != nil {
		s.screen.note(err.Error())
	}
	for _, note := range launched.GetNotes() {
		s.screen.note(note)
	}
	if s.options.detach {
		return s.detach(launched)
	}
	return s.follow(ctx, signals)
}

// makeFolder makes the run's folder, so that a folder that cannot be written is known before the command starts.
func (s *session) makeFolder() error {
	if s.options.noFiles {
		return nil
	}
	dir, err := filepath.Abs(filepath.Join(s.options.outputDir, s.id))
	if err != nil {
		return err
	}
	s.above = missingAbove(dir)
	store, err := record.Create(dir)
	if err != nil {
		return fmt.Errorf("%w (--output-dir names another folder, --no-files keeps none)", err)
	}
	s.dir = dir
	if err := store.Close(); err != nil {
		return err
	}
	s.held, err = rundir.Hold(dir)
	return err
}

func (s *session) removeFolder() error {
	if s.dir == "" {
		return nil
	}
	err := os.RemoveAll(s.dir)
	for _, dir := range s.above {
		if os.Remove(dir) != nil {
			break // somebody else has a run in it by now
		}
	}
	return err
}

// missingAbove lists the folders above a path that are not there yet, the innermost first.
func missingAbove(path string) []string {
	var missing []string
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			return missing
		}
		missing = append(missing, dir)
	}
}

// start starts the executor and the command in it.
func (s *session) start(ctx context.Context) (*proto.LaunchResponse, error) {
	// Where the executor dies and there is no cgroup, the command's processes come home to us and can be killed.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a subreaper: %w", err)
	}
	streams, err := openSessionStreams(s.options, s.dir)
	if err != nil {
		return nil, err
	}
	s.streams = streams
	s.screen = newScreen(s.cmd.ErrOrStderr(), streams, s.options)
	s.client, err = client.Start(ctx, client.Options{
		RuntimeDir: client.DefaultRuntimeDir(), ID: s.id, ExtraFiles: streams.give, KeepIgnored: true,
	})
	if err != nil {
		return nil, errors.Join(err, streams.close())
	}
	request, err := s.request()
	if err != nil {
		return nil, s.abandon(err)
	}
	launched, err := s.client.Launch(ctx, request)
	if errors.Is(err, client.ErrLost) {
		return nil, err
	}
	if err != nil {
		return nil, s.abandon(launchFault(s.args[0], err))
	}
	return launched, streams.given()
}

// abandon ends an executor that has no task.
func (s *session) abandon(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, s.client.Shutdown(ctx), s.client.Close(), s.streams.close())
}

func (s *session) request() (*proto.LaunchRequest, error) {
	o := s.options
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	request := &proto.LaunchRequest{
		Id: s.id, Command: s.path, Args: s.args[1:], Env: os.Environ(), Dir: dir, User: o.user,
		Stdio: s.streams.stdio, LeashFd: s.streams.leashFD, Limits: o.limited,
		Cgroup: &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_AUTO, Parent: o.cgroupParent},
		Record: &proto.RecordOptions{
			Dir: s.dir, IntervalNs: int64(o.interval), ReportIntervalNs: int64(o.reportInterval),
		},
		TimeoutNs: int64(o.timeout), KillGraceNs: int64(o.killGrace), KillSignal: int32(s.killSignal),
		Labels: o.labels, Message: o.message, CommandLine: s.args, MaxRows: uint32(o.maxRows),
		ExitWithTask: o.detach, WaitForAll: o.waitAll, Argv0: s.args[0],
	}
	if o.cgroup.String() == "none" {
		request.Cgroup.Mode = proto.CgroupPlacement_MODE_NONE
	}
	if o.disk != "" {
		if request.DiskDir, err = filepath.Abs(o.disk); err != nil {
			return nil, fmt.Errorf("--disk: %w", err)
		}
	}
	for _, id := range s.selection.IDs() {
		request.Selection = append(request.Selection, uint32(id))
	}
	for name := range strings.SplitSeq(o.measurements, ",") {
		// A measurement asked for by its full name must be there; a group takes what there is, if there is anything.
		name = strings.TrimSpace(name)
		m, known := procstats.LookupName(name)
		switch {
		case name == "all", name == "default", strings.HasPrefix(name, "-"):
		case known && m.Scope != procstats.HeadlineScope:
			request.Required = append(request.Required, uint32(m.ID))
		default:
			request.RequiredGroups = append(request.RequiredGroups, name)
		}
	}
	return request, nil
}

// launchFault turns the executor's answer into the exit code that a shell would give.
func launchFault(name string, err error) error {
	text := errors.New(status.Convert(err).Message())
	switch status.Code(err) {
	case codes.NotFound:
		return cli.ExitWith(exitNotFound, fmt.Errorf("%s: %w", name, text))
	case codes.PermissionDenied:
		return cli.ExitWith(exitNotExecutable, fmt.Errorf("%s: %w", name, text))
	}
	return text
}

// follow passes on what comes from outside until the command has ended, and then says how.
func (s *session) follow(ctx context.Context, signals chan os.Signal) error {
	following, stop := context.WithCancel(ctx)
	proxied := s.streams.proxy(following, s.screen)
	shown := s.screen.follow(following, s.client, s.options)
	var passing sync.WaitGroup
	if s.streams.master == nil {
		signal.Notify(signals, unix.SIGTSTP) // a command with a terminal of its own gets that key there
	}
	passing.Go(func() { s.pass(following, signals) })
	passing.Go(func() { s.followEvents(following) })
	exit, final, err := s.client.Wait(context.WithoutCancel(ctx))
	stop()
	passing.Wait()
	<-shown
	<-proxied
	if errors.Is(err, client.ErrLost) {
		return s.lost()
	}
	if err != nil {
		return errors.Join(err, s.client.Close(), s.streams.close())
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := errors.Join(s.client.Shutdown(shutdown), s.client.Close(), s.streams.close()); err != nil {
		s.screen.note(err.Error()) // the command's own result is not touched by it
	}
	if err := s.report(final); err != nil {
		s.screen.note(err.Error())
	}
	tellIncomplete(s.cmd, final)
	return exitOf(exit)
}

// tellIncomplete says why the files of a run lack something, which nobody else does once its executor is gone.
func tellIncomplete(cmd *cobra.Command, final *record.Record) {
	if final.Incomplete != "" {
		cli.PrintError(cmd.ErrOrStderr(), fmt.Errorf("the record is not whole: %s", final.Incomplete))
	}
}

// exitOf is the error that gives tacho the command's exit code; nil for 0.
func exitOf(exit *proto.Exit) error {
	switch {
	case exit.GetVerdict() == string(record.TimedOut):
		return cli.ExitWith(exitTimedOut, nil)
	case exit.GetCode() != 0:
		return cli.ExitWith(int(exit.GetCode()), nil)
	}
	return nil
}

// lost kills what an executor that died left behind and says so in the record.
func (s *session) lost() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ended := time.Now()
	err := s.client.KillTask(ctx)
	if s.dir != "" {
		markErr := markLost(s.dir, ended)
		if errors.Is(markErr, os.ErrNotExist) { // nothing had been started
			markErr = s.removeFolder()
		}
		err = errors.Join(err, markErr)
	}
	err = errors.Join(err, s.client.Close(), s.streams.close())
	// The executor has been reaped: as a subreaper this process has inherited what was left of the command, and has no
	// other children.
	err = errors.Join(err, process.KillChildren(ctx, kernel.HostFS()))
	s.screen.endLine()
	return cli.ExitWith(cli.CodeLauncherError, errors.Join(fmt.Errorf("the command was killed: %w", client.ErrLost), err))
}

// markLost completes the record of a run whose executor died, unless it had written it to its end. Where nobody saw
// when that was, ended is zero.
func markLost(dir string, ended time.Time) error {
	r, err := record.Read(dir)
	if err != nil || r.State != record.Running {
		return err
	}
	r.State, r.EndedAt = record.Lost, ended
	r.FillFromReports(record.ReadUsage(dir))
	if !ended.IsZero() {
		wall := ended.Sub(r.StartedAt).Seconds()
		r.WallSeconds = &wall
	}
	r.Diagnosis = record.Diagnose(record.Evidence{Cause: record.ExecutorLost})
	store, err := record.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(store.Put(r), store.Close())
}

// forwarded lists the signals that are passed on to the command: those that were ignored when we started, as nohup
// does, stay ignored, here and in the command.
func forwarded() []os.Signal {
	list := []os.Signal{unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2}
	if !signal.Ignored(unix.SIGHUP) {
		list = append(list, unix.SIGHUP)
	}
	if !signal.Ignored(unix.SIGINT) {
		list = append(list, unix.SIGINT, unix.SIGQUIT)
	}
	return list
}

// pass sends signals on to the command. What a terminal sends to a whole group goes to the command's whole group.
func (s *session) pass(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case received := <-signals:
			number, ok := received.(syscall.Signal)
			if !ok {
				continue
			}
			if number == unix.SIGTSTP {
				s.pause(ctx)
				continue
			}
			group := number == unix.SIGINT || number == unix.SIGQUIT
			err := s.client.Signal(ctx, number, group)
			if err != nil && ctx.Err() == nil && status.Code(err) != codes.NotFound {
				s.screen.note(err.Error())
			}
		case <-ctx.Done():
			return
		}
	}
}

// parseSignal reads TERM, SIGTERM or 15.
func parseSignal(word string) (syscall.Signal, error) {
	name := strings.ToUpper(strings.TrimSpace(word))
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if number := unix.SignalNum(name); number != 0 {
		return number, nil
	}
	if number, err := strconv.Atoi(strings.TrimSpace(word)); err == nil && number > 0 && number <= 64 {
		return syscall.Signal(number), nil
	}
	return 0, cli.Usagef("%q is no signal: write a name such as TERM or a number from 1 to 64", word)
}
