// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/errlist"
	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/oom"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/failpoint"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// prepare turns a request into a task that only needs its fork. On an error nothing is left behind.
func (e *Executor) prepare(request *proto.LaunchRequest) (*task, *command, error) {
	path, err := findExecutable(request.GetCommand(), request.GetEnv(), request.GetDir())
	if err != nil {
		return nil, nil, err
	}
	credential, err := lookupUser(request.GetUser())
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
	streams, err := openStdio(request.GetStdio(), credential, e.addLogEvent)
	if err != nil {
		return nil, nil, refuse(shortageOr(codes.InvalidArgument, err), err, group.Remove())
	}
	c := &command{
		path: path, argv: append([]string{cmp.Or(request.GetArgv0(), request.GetCommand())}, request.GetArgs()...), env: request.GetEnv(),
		dir: request.GetDir(), streams: streams, credential: credential, group: group,
		oomScoreAdj: e.oomScoreAdj, networkNamespace: request.GetNetworkNamespace(),
	}
	if request.OomScoreAdj != nil {
		c.oomScoreAdj = int(request.GetOomScoreAdj())
	}
	t := &task{
		request: request, log: e.log, host: e.host, children: e.children, group: group, journal: e.journal, gone: make(chan struct{}),
		limits: limits, base: c, logs: streams.logs,
	}
	peaks := group.ResetPeaks()
	t.sampler = newSampler(source.Target{
		FS: e.host, Cgroup: group.Cgroup, Roots: e.roots, Reaped: e.children.reaped, Dir: request.GetDiskDir(),
		Disk: source.DiskLimits{
			Every: time.Duration(request.GetDiskIntervalNs()), Budget: time.Duration(request.GetDiskBudgetNs()),
		},
		MaxRows: int(request.GetMaxRows()), Used: !group.Owned, Opened: peaks,
	}, selection)
	t.inheritsPeak = !group.Owned && peaks["memory.peak"] == nil
	for _, file := range peaks {
		_ = file.Close() // the sampler has descriptors of its own
	}
	if selection.HasSource(procstats.SourceIO) {
		e.children.readIO()
	}
	return t, c, nil
}

// refuse is the answer to a request that failed, with the errors of cleaning up after it. Of errors that are a status
// already only the message is used: joined to others they would show their code as text.
func refuse(code codes.Code, err error, cleaning ...error) error {
	text := err.Error()
	if own, ok := status.FromError(err); ok {
		text = own.Message()
	}
	if err := errlist.Join(cleaning...); err != nil {
		text += "; " + err.Error()
	}
	return status.Error(code, text)
}

// startTask starts the task: the fork, its identity, its record.
func (e *Executor) startTask(t *task, c *command) error {
	baseline := t.sampler.before()
	if err := t.checkRequired(baseline); err != nil {
		return refuse(status.Code(err), err, c.streams.abandon(), t.sampler.close(baseline), t.group.Remove())
	}
	t.recorder = e.newRecorder(t, baseline)
	// Before the fork: whatever happens then, there is a record, and a caller that finds us dead finds the cgroup.
	t.recorder.start()
	if err := e.writeTask(t); err != nil {
		return refuse(codes.ResourceExhausted, err, c.streams.abandon(), t.sampler.close(baseline), t.group.Remove())
	}
	t.oom = oom.Open(oom.Options{
		Logger: e.log, FS: e.host, Cgroup: t.group.Cgroup, Latest: t.sampler.latest, Report: e.journal.addOOMKill,
	})
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
		return refuse(status.Code(err), err, c.streams.abandon(), t.oom.Close(), t.sampler.close(baseline), t.group.Remove())
	}
	failpoint.At("executor.launch.forked")
	if err := e.writeTask(t); err != nil {
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

// checkRequired refuses a task of which a measurement that was asked for by name cannot be read here, or nothing of a
// group.
func (t *task) checkRequired(baseline *procstats.Sample) error {
	for _, number := range t.request.GetRequired() {
		id := procstats.ID(number)
		m, known := procstats.Lookup(id)
		if !known || number > math.MaxUint16 {
			return status.Errorf(codes.InvalidArgument, "unknown measurement %d", number)
		}
		if reason := t.whyAbsent(m, baseline); reason != "" {
			return status.Errorf(codes.FailedPrecondition, "%s is not available here: %s", m.Name, reason)
		}
	}
	for _, name := range t.request.GetRequiredGroups() {
		group, err := procstats.ParseSelection(name)
		if err != nil {
			return status.Errorf(codes.InvalidArgument, "selection: %v", err)
		}
		if reason := t.whyAllAbsent(group, baseline); reason != "" {
			return status.Errorf(codes.FailedPrecondition, "no measurement of %s is available here: %s", name, reason)
		}
	}
	return nil
}

// whyAllAbsent says why nothing of a group can be read here; empty if something can.
func (t *task) whyAllAbsent(group procstats.Selection, baseline *procstats.Sample) (reason string) {
	for _, id := range group.IDs() {
		m, _ := procstats.Lookup(id)
		why := t.whyAbsent(m, baseline)
		if why == "" {
			return ""
		}
		reason = cmp.Or(reason, why)
	}
	return reason
}

// whyAbsent says why a measurement cannot be read here; empty if it can. Sources that have nothing to read yet before
// the start are judged by whether they work at all.
func (t *task) whyAbsent(m procstats.Measurement, baseline *procstats.Sample) string {
	reason := ""
	for _, d := range t.sampler.describe() {
		if d.ID == m.Source && !d.Available {
			reason = d.Reason
		}
	}
	reading, _ := baseline.Task.Get(m.ID)
	fromFile := m.Source == procstats.SourceCgroup || m.Source == procstats.SourcePSI
	if fromFile && !reading.Present() && reading.Reason() != procstats.ReasonNoLimit {
		reason = reading.Reason()
	}
	return reason
}

func (e *Executor) launched(t *task) *proto.LaunchResponse {
	r := &proto.LaunchResponse{
		Main: wire.FromProcessID(t.main), StartedAtUnixNs: t.started.UnixNano(), Notes: t.group.Notes, Limits: limitsToWire(t.limits),
		Cgroup: &proto.Cgroup{
			V2: t.group.V2, V1: t.group.V1, Owned: t.group.Owned, Placement: string(t.group.Placement), Shared: t.group.Shared,
		},
	}
	for _, d := range t.sampler.describe() {
		r.Sources = append(r.Sources, &proto.Source{
			Name: d.ID.String(), Version: d.Version, Available: d.Available, Reason: d.Reason,
		})
	}
	return r
}

func (e *Executor) newRecorder(t *task, baseline *procstats.Sample) *recorder {
	options := t.request.GetRecord()
	r := &recorder{
		log: e.log, interval: time.Duration(options.GetIntervalNs()), report: time.Duration(options.GetReportIntervalNs()),
		sampler: t.sampler, baseline: baseline, info: e.newRecord(t), inheritsPeak: t.inheritsPeak,
	}
	r.report = max(r.report, r.interval)
	// The baseline opens the window, so that the first report has a delta.
	r.whole.Add(record.Baseline(baseline))
	r.current.Add(record.Baseline(baseline))
	if dir := options.GetDir(); dir != "" {
		store, err := record.Open(dir)
		if err != nil {
			r.fault("open the record", err)
		} else {
			r.store = store
		}
	}
	return r
}

// limitedGroup makes or takes the task's cgroup with its limits, or without any if they cannot be held and are optional.
func (e *Executor) limitedGroup(request *proto.LaunchRequest) (*cgroup.Group, []cgroup.Limit, error) {
	group, limits, err := e.groupWith(request, request.GetLimits())
	if err == nil || !request.GetLimitsOptional() || request.GetLimits() == nil {
		return group, limits, err
	}
	group, limits, again := e.groupWith(request, nil)
	if again != nil {
		return nil, nil, again
	}
	group.Notes = append(group.Notes, "limits not enforced: "+err.Error())
	return group, limits, nil
}

// groupWith makes or takes the task's cgroup and sets limits. On an error nothing is left behind.
func (e *Executor) groupWith(request *proto.LaunchRequest, wanted *proto.Limits) (*cgroup.Group, []cgroup.Limit, error) {
	group, err := e.makeGroup(request, wanted.GetCpuset() != "")
	if err != nil {
		return nil, nil, err
	}
	limits, err := group.SetLimits(e.host, limitsOf(wanted))
	if err = errors.Join(err, failpoint.Err("executor.launch.cgroup")); err != nil {
		return nil, nil, errors.Join(err, group.Remove())
	}
	return group, limits, nil
}

// makeGroup makes or takes the task's cgroup as the request says, with the cpuset controller if there are limits for it.
func (e *Executor) makeGroup(request *proto.LaunchRequest, cpuset bool) (*cgroup.Group, error) {
	placement := request.GetCgroup()
	switch placement.GetMode() {
	case proto.CgroupPlacement_MODE_NONE:
		return cgroup.None("no cgroup was requested"), nil
	case proto.CgroupPlacement_MODE_GIVEN:
		return cgroup.Use(e.host, procstats.Cgroup{
			V2: placement.GetV2(), V1: placement.GetV1(), Shared: placement.GetShared(),
		})
	case proto.CgroupPlacement_MODE_UNSPECIFIED, proto.CgroupPlacement_MODE_AUTO:
	}
	return cgroup.Create(cgroup.Options{
		FS: e.host, ID: request.GetId(), Parent: placement.GetParent(), Cpuset: cpuset,
		CpusetDir: placement.GetV1()["cpuset"],
		Planned: func(c procstats.Cgroup) {
			if err := e.writeAddress(&wire.Address{ID: request.GetId(), Socket: e.socket(), Cgroup: c, Owned: true}); err != nil {
				e.log.Error("write the address", "error", err)
			}
			failpoint.At("executor.launch.planned")
		},
	})
}

// findExecutable resolves a command as execvp(3) does in the task's folder, with the PATH of the task's own
// environment. An empty name in it stands for the folder itself.
func findExecutable(name string, env []string, dir string) (string, error) {
	if name == "" {
		return "", status.Error(codes.InvalidArgument, "no command")
	}
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for folder := range strings.SplitSeq(searchPath(env), ":") {
			candidates = append(candidates, filepath.Join(folder, name))
		}
	}
	notExecutable := ""
	for _, path := range candidates {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case info.IsDir() || info.Mode()&0o111 == 0:
			notExecutable = path
		default:
			return path, nil
		}
	}
	if notExecutable != "" {
		return "", status.Errorf(codes.PermissionDenied, "%s: not executable", notExecutable)
	}
	return "", status.Errorf(codes.NotFound, "%s: command not found", name)
}

// shortageOr is the status of a machine that is short of something and may have it later; of every other error it is code.
func shortageOr(code codes.Code, err error) codes.Code {
	for _, short := range []error{unix.EAGAIN, unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		if errors.Is(err, short) {
			return codes.ResourceExhausted
		}
	}
	return code
}

// searchPath is the PATH of an environment; without one it is what execvp(3) takes instead.
func searchPath(env []string) string {
	for _, pair := range slices.Backward(env) {
		if value, found := strings.CutPrefix(pair, "PATH="); found {
			return value
		}
	}
	return "/bin:/usr/bin"
}

// startError says why the fork or exec did not work, with the status that the caller turns into an exit code.
func startError(c *command, err error) error {
	what := c.path
	code := shortageOr(codes.Internal, err)
	switch {
	case c.credential != nil && errors.Is(err, unix.EPERM):
		// execve(2) says EACCES of a file that may not be executed; this is setgroups(2), setgid(2) or setuid(2).
		return status.Errorf(codes.FailedPrecondition, "start %s as another user, %d:%d: %v: requires root (CAP_SETUID and CAP_SETGID)",
			what, c.credential.Uid, c.credential.Gid, err)
	case errors.Is(err, fs.ErrNotExist):
		code = codes.NotFound // the interpreter of a script, where the script itself was found
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.ENOTDIR),
		errors.Is(err, unix.E2BIG), errors.Is(err, unix.ETXTBSY):
		code = codes.PermissionDenied
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	if c.dir != "" && code != codes.ResourceExhausted {
		// One error stands for both: that of chdir(2), as the task's user, and that of execve(2).
		what += " in the directory " + c.dir
	}
	return status.Errorf(code, "start %s: %v", what, err)
}

// lookupUser returns the credential of "user", "uid", "user:group" or "uid:gid"; nil for the executor's own.
func lookupUser(name string) (*syscall.Credential, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // no credential is what syscall wants for "do not change it"
	}
	return credentialOf(name)
}
