// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/oom"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// prepare turns a request into a task that only needs its fork. On an error nothing is left behind.
func (e *Executor) prepare(request *proto.LaunchRequest) (*task, *command, error) {
	path, err := findExecutable(request.GetCommand(), request.GetEnv(), request.GetDir())
	if err != nil {
		return nil, nil, err
	}
	credential, err := credentialOf(request.GetUser())
	if err != nil {
		return nil, nil, status.Error(codes.InvalidArgument, err.Error())
	}
	selection, err := selectionOf(request)
	if err != nil {
		return nil, nil, err
	}
	group, limits, err := e.limitedGroup(request)
	if err != nil {
		return nil, nil, refuse(shortageOr(codes.FailedPrecondition, err), err)
	}
	if e.home.BootID == kernel.UnknownBoot {
		group.Notes = append(group.Notes, "this boot has no id here, /proc shows processes alone: "+
			"after a reboot, another process with the same PID and start time would be taken for one of this task")
	}
	streams, err := openStdio(request.GetStdio(), credential, e.journal.add)
	if err != nil {
		return nil, nil, refuse(shortageOr(codes.InvalidArgument, err), err, group.Remove())
	}
	c := &command{
		path: path, env: request.GetEnv(),
		argv: append([]string{cmp.Or(request.GetArgv0(), request.GetCommand())}, request.GetArgs()...),
		dir:  request.GetDir(), streams: streams, credential: credential, group: group,
		oomScoreAdj: e.oomScoreAdj, networkNamespace: request.GetNetworkNamespace(),
	}
	if here, err := os.Readlink("/proc/self/cwd"); err == nil && here != "/" {
		c.dir = "" // our caller has put us there for the task to inherit it
	}
	if request.OomScoreAdj != nil {
		c.oomScoreAdj = int(request.GetOomScoreAdj())
	}
	t := &task{
		request: request, log: e.log, folder: e.folder, children: e.children, journal: e.journal, base: c, logs: streams.logs,
		placement: placement{group: group, limits: limits},
		outcome:   outcome{gone: make(chan struct{}), released: make(chan struct{})},
	}
	peaks := group.ResetPeaks()
	t.reader = e.openReader(t, selection, peaks)
	t.inheritsPeak = !group.Owned && peaks["memory.peak"] == nil
	for _, file := range peaks {
		_ = file.Close() // the reader has descriptors of its own
	}
	e.children.watch(group.Cgroup, selection.HasSource(procstats.SourceIO))
	return t, c, nil
}

// credentialOf returns a user's credential; nil for the executor's own, which takes no right to set.
func credentialOf(name string) (*syscall.Credential, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // no credential is what syscall wants for "do not change it"
	}
	credential, err := process.LookupUser(name)
	if err == nil && os.Geteuid() != 0 && int(credential.Uid) == os.Geteuid() && int(credential.Gid) == os.Getegid() {
		return nil, nil //nolint:nilnil // as above
	}
	return credential, err
}

// refuse is the answer to a request that failed, with the errors of cleaning up after it. Of errors that are a status
// already only the message is used: joined to others they would show their code as text.
func refuse(code codes.Code, err error, cleaning ...error) error {
	text := err.Error()
	if own, ok := status.FromError(err); ok {
		text = own.Message()
	}
	if err := errors.Join(cleaning...); err != nil {
		text += "; " + err.Error()
	}
	return status.Error(code, text)
}

// startTask starts the task: the fork, its identity, its record.
func (e *Executor) startTask(t *task, c *command, announce func(*task)) error {
	baseline := t.reader.Before()
	if err := t.checkRequired(baseline); err != nil {
		return refuse(status.Code(err), err, c.streams.abandon(), t.reader.Close(baseline), t.group.Remove())
	}
	// Before the fork: whatever happens then, there is a record, and a caller that finds us dead finds the cgroup.
	var err error
	if t.recorder, err = newRecorder(e.log, t.request.GetRecord(), t.reader, baseline, e.newRecord(t)); err == nil {
		t.recorder.inheritsPeak = t.inheritsPeak
		err = errors.Join(t.recorder.start(), e.writeTask(t.request, t.main, t.group.Cgroup, t.group.Owned))
	}
	if err != nil {
		return refuse(shortageOr(codes.FailedPrecondition, err), err,
			t.recorder.abandon(), c.streams.abandon(), t.reader.Close(baseline), t.group.Remove())
	}
	t.oom = oom.Open(oom.Options{
		Logger: e.log, FS: e.host, Cgroup: t.group.Cgroup, Latest: t.latest, Report: e.journal.addOOMKill,
	})
	if t.recorder.interval > 0 {
		t.recorder.exits = e.programs.WatchExits(t.group.Cgroup, nil)
		t.reader.Packets.WatchSockets(e.programs.Sockets, c.streams.task, t.recorder.exits.Uncounted)
	}
	announce(t)
	pid, end, err := e.children.start(func() (int, error) {
		if err := failpoint.Err("executor.launch.fork"); err != nil {
			return 0, err
		}
		pid, err := e.launcher.fork(e.launch, c)
		if err == nil {
			t.main = e.identify(pid)
		}
		return pid, err
	})
	if err != nil {
		err = startError(c, err)
		t.recorder.exits.Close()
		return refuse(status.Code(err), err,
			t.recorder.abandon(), c.streams.abandon(), t.oom.Close(), t.reader.Close(baseline), t.group.Remove())
	}
	failpoint.At("executor.launch.forked")
	if err := e.writeTask(t.request, t.main, t.group.Cgroup, t.group.Owned); err != nil {
		e.log.Error("write the address", "error", err) // what leads to the task is there: its cgroup, and this process
	}
	c.streams.started()
	t.started, t.end = c.forked, end
	t.oom.Started(t.main)
	t.launched = e.launched(t)
	t.recorder.started(t.main, t.started)
	e.journal.add("launched", fmt.Sprintf("started process %d", pid), nil)
	return nil
}

// identify returns the identity of a child that cannot be reaped meanwhile.
func (e *Executor) identify(pid int) procstats.ProcessID {
	identity, err := kernel.Identify(e.host, pid)
	if err != nil {
		// Its stat is there even if it has ended; without it the task cannot be distinguished from others later.
		e.log.Error("read the main process's start time", "pid", pid, "error", err)
		return procstats.ProcessID{PID: pid}
	}
	return identity.ProcessID
}

// checkRequired refuses a task if a measurement that was requested by name cannot be read here, or nothing of a
// group.
func (t *task) checkRequired(baseline *procstats.Sample) error {
	for _, number := range t.request.GetRequired() {
		m, err := lookup(number)
		if err != nil {
			return err
		}
		if reason := t.whyAbsent(procstats.Select(m.ID), baseline); reason != "" {
			return status.Errorf(codes.FailedPrecondition, "%s is not available here: %s", m.Name, reason)
		}
	}
	for _, name := range t.request.GetRequiredGroups() {
		group, err := procstats.ParseSelection(name)
		if err != nil {
			return status.Errorf(codes.InvalidArgument, "selection: %v", err)
		}
		if reason := t.whyAbsent(group, baseline); reason != "" {
			return status.Errorf(codes.FailedPrecondition, "no measurement of %s is available here: %s", name, reason)
		}
	}
	return nil
}

// whyAbsent says why nothing of a group can be read here; empty if something can. Sources that have nothing to read yet
// before the start are judged by whether they work at all.
func (t *task) whyAbsent(group procstats.Selection, baseline *procstats.Sample) (reason string) {
	for _, id := range group.IDs() {
		m, _ := procstats.Lookup(id)
		why := ""
		for _, d := range t.reader.Describe() {
			if d.ID == m.Source && !d.Available {
				why = d.Reason
			}
		}
		reading, _ := baseline.Task.Get(id)
		fromFile := m.Source == procstats.SourceCgroup || m.Source == procstats.SourcePSI
		if fromFile && !reading.Present() && reading.Reason() != procstats.ReasonNoLimit {
			why = reading.Reason()
		}
		if why == "" {
			return ""
		}
		reason = cmp.Or(reason, why)
	}
	return reason
}

func (e *Executor) launched(t *task) *proto.LaunchResponse {
	r := &proto.LaunchResponse{
		Main: wire.FromProcessID(t.main), StartedAtUnixNs: t.started.UnixNano(), Notes: t.group.Notes,
		Limits: limitsToWire(t.limits), Cgroup: t.cgroup(),
	}
	for _, d := range t.reader.Describe() {
		r.Sources = append(r.Sources, &proto.Source{
			Name: d.ID.String(), Version: d.Version, Available: d.Available, Reason: d.Reason,
		})
	}
	return r
}

func (t *task) cgroup() *proto.Cgroup {
	return &proto.Cgroup{
		V2: t.group.V2, V1: t.group.V1, Owned: t.group.Owned, Placement: string(t.group.Placement), Shared: t.group.Shared,
	}
}

func newRecorder(
	log hclog.Logger, options *proto.RecordOptions, from *reader.Reader, baseline *procstats.Sample, info *record.Record,
) (*recorder, error) {
	r := &recorder{
		log: log, interval: time.Duration(options.GetIntervalNs()), report: time.Duration(options.GetReportIntervalNs()),
		firstInterval: time.Duration(options.GetFirstIntervalNs()), reader: from, baseline: baseline, info: info,
	}
	if r.report == 0 {
		r.report, r.growing = time.Minute, time.Minute
	}
	r.report = max(r.report, r.interval)
	if dir := options.GetDir(); dir != "" {
		var err error
		if r.store, err = record.Open(dir); err != nil {
			return nil, err
		}
	}
	r.count(record.Baseline(baseline)) // opens the window, so that the first report has a delta
	return r, nil
}
