// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package executor is the out-of-process half: a process that starts one task, supervises it, samples it on request,
// ends it, and writes its record. It outlives the process that started it; docs/executor-protocol.md says how the two
// talk, docs/architecture.md what it promises.
package executor

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Executor is the server of executor/proto: it runs one task in its life.
type Executor struct {
	proto.UnimplementedExecutorServer
	identity
	lifetime

	log      hclog.Logger
	host     kernel.FS
	children *reaper
	launcher *launcher
	journal  *journal
	notifier notifier
	gc       gcTuner
	programs *reader.Programs
	server   atomic.Pointer[grpc.Server]

	mu       sync.Mutex // guards following
	phase    phase
	task     *task
	withTask bool        // the executor ends with its task, once its caller knows of that
	overdue  *time.Timer // nil before canceled and killing
	left     bool        // the executor ends and something of the task is left
}

// identity is what an executor is known by, and what it was started with.
type identity struct {
	build  string
	folder string
	owner  wire.Owner
	self   procstats.ProcessID
	home   procstats.Home
	// session is our caller's.
	session int
	// oomScoreAdj is what the executor was started with, and what a task gets that asks for nothing else.
	oomScoreAdj int
	// listensAt is where the executor is reached; empty if it has no folder.
	listensAt string
	// address is what was written last; the zero one before.
	address wire.Address
}

// lifetime is how long the parts of an executor live.
type lifetime struct {
	ctx    context.Context // is done in the phase ending
	cancel context.CancelFunc
	// life is done when the task is gone, and release makes it so: the reaper and the launcher outlive ctx.
	life    context.Context
	release context.CancelFunc
	// launch is done when the start of the task is given up.
	launch       context.Context
	cancelLaunch context.CancelFunc
	// decided is closed at the end of Launch.
	decided chan struct{}
	work    sync.WaitGroup
	// unused runs until Launch, and after one that failed.
	unused *time.Timer
	// caller waits for the end of a caller that reads our standard output as long as it lives; nil if there is none.
	caller *process.EpollSet
}

// newExecutor returns an executor that has started nothing yet.
func newExecutor(log hclog.Logger, build, folder string) (*Executor, error) {
	e := &Executor{log: log, host: kernel.HostFS().Knowing(time.Second), journal: newJournal()}
	e.build, e.folder, e.decided = build, folder, make(chan struct{})
	e.programs = reader.NewProgramsOfOne(log, e.host)
	e.journal.notify = e.notifier.notify
	e.children = newReaper(e.host)
	e.children.stopped = e.taskStopped
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.life, e.release = context.WithCancel(context.Background())
	e.launch, e.cancelLaunch = context.WithCancel(context.Background())
	identity, err := kernel.Identify(e.host, os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("read own start time: %w", err)
	}
	e.self = identity.ProcessID
	e.launcher = newLauncher()
	if e.home, err = kernel.OwnHome(e.host); err != nil {
		return nil, err
	}
	e.session, _ = unix.Getsid(os.Getppid()) // 0 if it is not known
	// Orphans of the task are reparented to us instead of to init, prctl(2).
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a subreaper: %w", err)
	}
	return e, e.protectFromOOM()
}

// protectFromOOM makes the executor the last to be killed when memory runs out, if that is permitted.
func (e *Executor) protectFromOOM() error {
	var err error
	if e.oomScoreAdj, err = kernel.OwnOOMScoreAdj(kernel.HostFS()); err != nil {
		return fmt.Errorf("read oom_score_adj: %w", err)
	}
	if err := kernel.WriteFile(oomScoreFile, "-1000"); err != nil {
		e.log.Debug("protect executor from the OOM killer", "error", err)
	}
	return nil
}

// start runs the executor's own goroutines until close.
func (e *Executor) start() {
	e.unused = time.AfterFunc(launchLimit, func() {
		if now, _ := e.on(onUnused); now == ending {
			e.log.Warn("no task requested; executor exits", "after", launchLimit)
		}
	})
	e.work.Go(func() { e.children.run(e.life, e.afterReap) })
	e.work.Go(func() { e.launcher.run(e.life) })
	e.work.Go(makeRoom)
	if err := e.watchCaller(); err != nil {
		e.log.Error("watch caller; if it dies before Launch, the executor exits later", "after", launchLimit, "error", err)
	}
}

// close ends the executor's goroutines and waits for them; the task is gone by then.
func (e *Executor) close() {
	e.unused.Stop()
	e.mu.Lock()
	if e.overdue != nil {
		e.overdue.Stop()
	}
	e.mu.Unlock()
	e.gc.close()
	e.cancelLaunch()
	e.release()
	e.work.Wait()
	e.programs.Close()
}

// loadPrograms loads what a task that this executor samples needs in the kernel, which takes it milliseconds to
// check, while the caller connects.
func (e *Executor) loadPrograms() {
	_ = e.programs.TryPackets() // the task's reader gets the error
	defer e.programs.Load()()
	select {
	case <-e.decided:
	case <-e.ctx.Done():
	}
}

// makeRoom makes room for more than 64 descriptors beside the start. The one that needs it in a process with several
// threads waits until no CPU can be using the old table, expand_fdtable() in fs/file.c: up to 10 ms, and it was a pipe
// that is made for the fork, within the time of the task.
func makeRoom() {
	const descriptors = 256
	if fd, err := unix.FcntlInt(uintptr(unix.Stderr), unix.F_DUPFD_CLOEXEC, descriptors-1); err == nil {
		_ = unix.Close(fd) // else the limit is less
	}
}

func (e *Executor) afterReap() {
	if t := e.current(); t != nil {
		t.onReparent()
	}
}

// taskStopped tells that the main process was stopped, by a key of its terminal perhaps: the holder of the real
// terminal suspends itself then, and sends SIGCONT later.
func (e *Executor) taskStopped(pid int, signal unix.Signal) {
	e.journal.add("stopped", fmt.Sprintf("process %d was stopped by %s", pid, unix.SignalName(signal)), nil)
}

// current returns the task, nil before Launch.
func (e *Executor) current() *task {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.task
}

// live returns the task or the status of a call that came before Launch.
func (e *Executor) live() (*task, error) {
	e.on(onCall)
	if t := e.current(); t != nil {
		return t, nil
	}
	return nil, status.Error(codes.FailedPrecondition, "no task has been launched")
}

// roots returns the live direct children: the main process and adopted orphans. They are listed only if there are any,
// see [process.KillChildren]: before the start and at the end of a task there are none.
func (e *Executor) roots() []int {
	if process.Childless() {
		return nil
	}
	pids, err := kernel.Children(e.host, os.Getpid())
	if err != nil {
		e.log.Error("list children", "error", err)
	}
	return pids
}

func selectionOf(request *proto.LaunchRequest) (procstats.Selection, error) {
	if len(request.GetSelection()) == 0 {
		return procstats.DefaultSelection(), nil
	}
	for _, number := range request.GetSelection() {
		if _, err := lookup(number); err != nil {
			return procstats.Selection{}, err
		}
	}
	return wire.ToSelection(request.GetSelection()), nil
}

// lookup returns the measurement of a number in a request.
func lookup(number uint32) (procstats.Measurement, error) {
	m, known := procstats.Lookup(procstats.ID(number))
	if !known || number > math.MaxUint16 {
		return m, status.Errorf(codes.InvalidArgument, "unknown measurement %d", number)
	}
	return m, nil
}

// newRecord returns the record of a task that is about to run.
func (e *Executor) newRecord(t *task) *record.Record {
	request := t.request
	command := request.GetCommandLine()
	if len(command) == 0 {
		command = append([]string{request.GetCommand()}, request.GetArgs()...)
	}
	r := &record.Record{
		Version: record.Version{SchemaVersion: record.SchemaVersion, TachoVersion: e.build}, State: record.Running,
		ID: request.GetId(), Command: command,
		Origin: record.Origin{
			Dir: request.GetDir(), User: request.GetUser(), Message: request.GetMessage(), Socket: e.listensAt,
		},
		StartedAt: time.Now(), Headline: map[string]record.HeadlineValue{}, Measurements: map[string]any{},
		Absent: map[string]string{},
		Surroundings: record.Surroundings{
			Cgroup: placed(t.group),
			Limits: t.limits, Sources: record.SourcesOf(t.reader.Describe()),
			Selection: t.reader.Selection.Names(),
		},
		Sampling: sampled(request.GetRecord()),
		About:    record.About{Host: e.describeHost(), Labels: request.GetLabels(), Notes: t.group.Notes},
	}
	r.SetExecutor(e.home, e.self)
	r.EscapeNames()
	return r
}

// placed is a cgroup as a record has it.
func placed(g *cgroup.Group) *record.Cgroup {
	return &record.Cgroup{Layout: g.Layout(), Placement: string(g.Placement), V2: g.V2, V1: g.V1}
}

// sampled is how often a task is read, as a record has it.
func sampled(o *proto.RecordOptions) record.Sampling {
	return record.Sampling{
		Interval:      time.Duration(o.GetIntervalNs()).Seconds(),
		FirstInterval: time.Duration(o.GetFirstIntervalNs()).Seconds(),
	}
}

func (e *Executor) describeHost() record.Host {
	h := record.Host{OS: runtime.GOOS, CPUs: onlineCPUs(), ReadAheadBytes: kernel.ReadAhead(kernel.HostFS())}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		h.Name, h.Kernel = unix.ByteSliceToString(name.Nodename[:]), unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		h.MemoryBytes = int64(info.Totalram) * int64(info.Unit)
	}
	return h
}

// onlineCPUs is the number of CPUs this process may use: GOMAXPROCS is 1 here and says nothing.
func onlineCPUs() int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return runtime.NumCPU()
	}
	return set.Count()
}
