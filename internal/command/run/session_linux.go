// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// session is one run of tacho run, from its start to its exit code.
type session struct {
	launch

	dir string // of the run; empty with --no-files
	// created are dir and the directories above it that did not exist, the innermost first.
	created []string
	path    string
	// runtimeDir is where the executor's socket is.
	runtimeDir string
	// refusal is why the command could not be started, an error of the command and not of tacho: the run has a record
	// of it.
	refusal string
	// killSignal is sent first to stop the command.
	killSignal syscall.Signal
	// output receives the final record; nil for stderr.
	output *recordOutput

	streams *sessionStreams
	client  *client.Client
	screen  *screen
	// interrupts are the times of the last three Ctrl-C, the newest last.
	interrupts [3]time.Time

	// final is the record of a command that has ended; nil if it did not run, if it was lost, and with --detach.
	final *record.Record
}

// run runs a command once.
func run(l launch) (*record.Record, error) {
	s := &session{launch: l}
	err := s.run(l.cmd.Context())
	return s.final, err
}

func (s *session) run(ctx context.Context) error {
	var err error
	if s.killSignal, err = parseSignal("--kill-signal", s.options.killSignal); err != nil {
		return err
	}
	if err := cmp.Or(kernel.CheckFileLimit("tacho run", leastFiles), kernel.CheckProc(kernel.HostFS())); err != nil {
		return err
	}
	if s.runtimeDir, err = client.FindRuntimeDir(s.options.runtimeDir, len(s.id), client.CheckRoom); err != nil {
		return s.runUnrecorded(err)
	}
	if s.output, err = s.options.openOutput(); err != nil {
		return err
	}
	if err := s.createDir(); err != nil {
		err = errors.Join(err, s.removeDir())
		if !s.withoutFiles(err) {
			return errors.Join(err, s.output.discard())
		}
	}
	if s.path, err = findCommand(s.args[0]); err != nil {
		s.refusal = err.Error()
		return s.failed(err)
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded()...)
	if signal.Ignored(unix.SIGINT) {
		signal.Ignore(unix.SIGQUIT) // a shell ignores both for its background jobs; the Go runtime keeps only SIGINT ignored
	}
	if s.progress != "" { // a single run ends with this process
		defer signal.Stop(signals)
	}
	// The reader of our stderr may exit before the command does. Catching SIGPIPE makes our writes fail with EPIPE
	// instead of killing us, and leaves its default action to the command, which ignoring it would not.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // never read and never stopped: errors are printed at the end
	for len(s.others) > 0 {
		<-s.others // those that came after an earlier run of the series
	}
	launched, err := s.start(ctx)
	if errors.Is(err, client.ErrLost) && s.client != nil {
		return s.lost() // the command may have been started
	}
	if err != nil {
		return s.failed(err)
	}
	s.screen.fail(s.output.truncate())
	for _, note := range launched.GetNotes() {
		s.screen.note(note)
	}
	if s.options.detach {
		return s.detach(ctx, launched)
	}
	return s.follow(ctx, signals)
}

// leastFiles is how many files the executor must be able to open: it holds those of each controller open.
const leastFiles = 96

// runUnrecorded makes this process the command if no directory can be the executor's: a recorder keeps no command from
// running. What is asked for beside a record takes an executor, though.
func (s *session) runUnrecorded(cause error) error {
	o := s.options
	if o.runtimeDir != "" {
		return fmt.Errorf("--runtime-dir: %w", cause)
	}
	cause = fmt.Errorf("%w (--runtime-dir chooses one)", cause)
	needs := o.given("cgroup-parent", "cleanup", "detach", "fail-if", "parameter", "runs", "timeout", "user", "wait-all",
		"warmup")
	if o.request.Limits != nil {
		needs = append(needs, "a limit")
	}
	if len(needs) > 0 {
		return fmt.Errorf("%s: not possible without an executor: %w", cli.AndList(needs), cause)
	}
	path, err := findCommand(s.args[0])
	if err != nil {
		return err
	}
	if o.input != "" {
		err = unix.Dup3(int(s.stdin.file.Fd()), unix.Stdin, 0)
	}
	cli.PrintError(s.cmd.ErrOrStderr(), fmt.Errorf("the command runs without any record: %w", cause))
	if err == nil {
		err = unix.Exec(path, s.args, os.Environ())
	}
	err = fmt.Errorf("%s: %w", s.args[0], err)
	if errors.Is(err, os.ErrNotExist) {
		return cli.ExitWith(exitNotFound, err)
	}
	return cli.ExitWith(exitNotExecutable, err)
}

// createDir creates the directory of the run, with a record. It does so before the command starts, to fail early.
func (s *session) createDir() error {
	if s.options.noFiles {
		return nil
	}
	dir, err := cli.Absolute(filepath.Join(s.options.outputDir, s.id))
	if err != nil {
		return err
	}
	for missing := dir; ; missing = filepath.Dir(missing) {
		if _, err := os.Lstat(missing); !errors.Is(err, os.ErrNotExist) {
			break
		}
		s.created = append(s.created, missing)
	}
	starting, err := s.ownRecord()
	if err != nil {
		return err
	}
	text, err := json.Marshal(starting)
	if err != nil {
		return err
	}
	store, err := record.Create(dir) // from here on until there is a record, others find a directory without one
	if err != nil {
		return fmt.Errorf("%w (--output-dir chooses another directory, --no-files writes no record)", err)
	}
	s.dir = dir
	// Not Put, which renames a temporary file: whatever this process dies of, the directory has a record.
	err = os.WriteFile(filepath.Join(dir, record.InfoFile), text, 0o600)
	return errors.Join(err, store.Close(), failpoint.Err("run.start.directory"))
}

// ownRecord returns the record of a run that has no executor, or not yet. This process stands for it: if this process
// dies, the run is lost.
func (s *session) ownRecord() (*record.Record, error) {
	r, host := s.newRecord(), kernel.HostFS()
	home, homeErr := kernel.OwnHome(host)
	self, err := kernel.Identify(host, os.Getpid())
	r.StartedAt = time.Now()
	r.SetExecutor(home, self.ProcessID)
	return r, errors.Join(homeErr, err)
}

// isStarting reports whether the record of the run is that of ownRecord.
func (s *session) isStarting() bool {
	r, err := record.Read(s.dir)
	return err == nil && r.Executor != nil && r.Executor.PID == os.Getpid()
}

// removeDir removes the directory of the run and those above it that were created and have no other run by now.
func (s *session) removeDir() (err error) {
	if s.dir != "" {
		err = os.RemoveAll(s.dir)
	}
	for _, dir := range s.created {
		_ = os.Remove(dir) // fails for one that has another run
	}
	s.dir, s.created = "", nil
	return err
}

// start starts the executor, which starts the command.
func (s *session) start(ctx context.Context) (*proto.LaunchResponse, error) {
	// If the executor dies and there is no cgroup, the command's processes are reparented to this process, which
	// kills them.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a subreaper: %w", err)
	}
	streams, err := openSessionStreams(s.options, s.stdin.file, s.dir)
	if err != nil {
		return nil, err
	}
	s.streams = streams
	s.screen = newScreen(s.cmd.ErrOrStderr(), streams, s.options)
	s.client, err = client.Start(ctx, client.Options{
		RuntimeDir: s.runtimeDir, ID: s.id, ExtraFiles: streams.inherited, KeepIgnored: true,
		Samples: s.options.cgroup.String() != "none", InheritDir: true, Meanwhile: s.settle,
	})
	if err != nil {
		return nil, errors.Join(err, streams.close())
	}
	request, err := s.request()
	if err = errors.Join(err, failpoint.Err("run.start.executor")); err != nil {
		return nil, s.abandon(err)
	}
	launched, err := s.client.Launch(ctx, request)
	failpoint.At("run.start.launched")
	if errors.Is(err, client.ErrLost) {
		return nil, err
	}
	if err != nil {
		return nil, s.abandon(s.launchError(err))
	}
	return launched, streams.closeInherited()
}

// settle does what the start of the executor does not need: this process waits from now on, and further threads of the
// runtime were 4 % of the CPU time of a short run, its monitor 2 %.
func (s *session) settle() {
	runtime.GOMAXPROCS(1)
	client.BePatient()
	catchOthers(s.others)
}

// abandon ends an executor whose task did not start.
func (s *session) abandon(err error) error {
	return errors.Join(err, s.client.Abandon(), s.streams.close())
}

// environment returns that of this process, for a user.
func environment(user string) []string {
	env, own := os.Environ(), make(map[string]string)
	if user != "" {
		env = slices.DeleteFunc(env, process.IsOfUser)
	}
	process.SetUser(own, user)
	for name, value := range own {
		env = append(env, name+"="+value)
	}
	return env
}

func (s *session) request() (*proto.LaunchRequest, error) {
	o := s.options
	dir, err := workingDir()
	if err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	request := o.request
	request.Id, request.Command, request.Env, request.Dir = s.id, s.path, environment(request.User), dir
	request.Args, request.Argv0, request.CommandLine = s.args[1:], s.args[0], s.args
	request.Stdio, request.LeashFd = s.streams.stdio, s.streams.leashFD
	request.KillSignal, request.ExitWithTask = int32(s.killSignal), o.detach
	if o.cgroup.String() == "none" {
		request.Cgroup.Mode = proto.CgroupPlacement_MODE_NONE
	}
	return request, s.setSampling(request)
}

// setSampling says what is measured, and when.
func (s *session) setSampling(request *proto.LaunchRequest) (err error) {
	o := s.options
	request.Record = &proto.RecordOptions{
		Dir: s.dir, IntervalNs: int64(o.interval), ReportIntervalNs: int64(o.reportInterval),
		FirstIntervalNs: int64(o.firstInterval),
	}
	request.MaxRows, request.SamplingBudget = uint32(o.maxRows), o.samplingBudget/100
	request.NetworkOff = o.network.String() == "off"
	if o.disk != "" {
		if request.DiskDir, err = cli.Absolute(o.disk); err != nil {
			return fmt.Errorf("--disk: %w", err)
		}
	}
	for _, id := range s.selection.IDs() {
		request.Selection = append(request.Selection, uint32(id))
	}
	for _, name := range o.named() {
		if m, known := procstats.LookupName(name); known && m.Scope != procstats.HeadlineScope {
			request.Required = append(request.Required, uint32(m.ID))
		} else {
			request.RequiredGroups = append(request.RequiredGroups, name)
		}
	}
	return nil
}

// follow forwards input, output and signals until the command has ended, and reports how it ended.
func (s *session) follow(ctx context.Context, signals chan os.Signal) error {
	following, stop := context.WithCancel(ctx)
	var forwarding sync.WaitGroup
	s.streams.interrupted = s.interrupted
	s.streams.proxy(following, &forwarding, s.screen)
	forwarding.Go(func() { s.screen.follow(following, statsFrom(s.client), s.options, s.progress) })
	if s.streams.master == nil {
		signal.Notify(signals, unix.SIGTSTP) // a command with its own terminal receives Ctrl-Z there
	}
	s.screen.fail(ignoreRealtime(true))
	defer func() { s.screen.fail(ignoreRealtime(false)) }()
	forwarding.Go(func() { s.forward(following, signals) })
	forwarding.Go(func() { s.followEvents(following) })
	_, encoded, err := s.client.WaitEncoded(context.WithoutCancel(ctx))
	failpoint.At("run.end.waited")
	stop()
	forwarding.Wait()
	if errors.Is(err, client.ErrLost) {
		return s.lost()
	}
	if err != nil {
		return errors.Join(err, s.client.Close(), s.streams.close())
	}
	closed := s.streams.close() // gives the terminal its modes back, and ends the executor, which was on the leash
	final, err := client.DecodeFinal(encoded)
	if err != nil {
		return errors.Join(err, closed, s.awaitExecutor(ctx))
	}
	reported := s.report(final)
	for _, err := range []error{closed, s.awaitExecutor(ctx), reported} { // none is an error of the command
		s.screen.fail(err)
	}
	warnIncomplete(s.cmd, final)
	s.final = final
	return exitOf(final)
}

// awaitExecutor waits for the end of the executor.
func (s *session) awaitExecutor(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	defer failpoint.At("run.end.released")
	return errors.Join(s.client.AwaitExit(bounded), s.client.Close())
}

// warnIncomplete prints what is missing in the files of a run.
func warnIncomplete(cmd *cobra.Command, final *record.Record) {
	if final.Incomplete != "" {
		cli.PrintError(cmd.ErrOrStderr(), fmt.Errorf("the record is incomplete: %s", final.Incomplete))
	}
}

// platformCommands are the commands that need an executor process.
func platformCommands() []*cobra.Command {
	return []*cobra.Command{newAttach(), newExecutors(), newStop(), newWatch()}
}

// launchError turns an error of Launch into the exit code that a shell would return.
func (s *session) launchError(err error) error {
	message := status.Convert(err).Message()
	code := map[codes.Code]int{codes.NotFound: exitNotFound, codes.PermissionDenied: exitNotExecutable}[status.Code(err)]
	if code == 0 {
		return errors.New(message)
	}
	s.refusal = message
	if name := s.args[0]; !strings.HasPrefix(message, name) {
		message = name + ": " + message
	}
	return cli.ExitWith(code, errors.New(message))
}

// failed ends a run whose command was not started. If that is the command's fault its record says so; of every other
// error nothing is left.
func (s *session) failed(err error) error {
	if s.refusal != "" && s.dir != "" {
		recordErr := putRecord(s.dir, s.refused(s.refusal))
		if recordErr == nil {
			return errors.Join(err, s.output.discard())
		}
		err = errors.Join(err, recordErr)
	}
	return errors.Join(err, s.output.discard(), s.removeDir())
}

// report writes the result to the chosen destination.
func (s *session) report(final *record.Record) error {
	if err := failpoint.Err("run.end.report"); err != nil {
		return err
	}
	interrupted := s.progress != "" && !final.End().Outcome.Success() // which is said next
	if s.output == nil && !s.options.silent() || interrupted {
		s.screen.endLine()
	}
	return s.options.report(s.cmd, s.output, final)
}

// openDescriptor opens the destination of --record-fd, a descriptor of the caller.
func (o *runOptions) openDescriptor() (*recordOutput, error) {
	fd := o.recordFD
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return nil, cli.Usagef("--record-fd %d: not an open file descriptor", fd)
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		return nil, cli.Usagef("--record-fd %d: open for reading only", fd)
	}
	if fd <= unix.Stderr { // errors are printed there after the record
		if fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return nil, fmt.Errorf("--record-fd %d: %w", o.recordFD, err)
		}
	}
	unix.CloseOnExec(fd)
	return &recordOutput{file: os.NewFile(uintptr(fd), "record-fd"), inherited: true}, nil
}

// blockDevice returns the major:minor of a block device. name is that, or a path.
func blockDevice(name string) (string, error) {
	if !strings.Contains(name, "/") {
		return name, nil
	}
	var stat unix.Stat_t
	if err := unix.Stat(name, &stat); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", fmt.Errorf("%s: not a block device (lsblk lists them)", name)
	}
	return fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev)), nil
}
