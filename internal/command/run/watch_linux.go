// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/repeat"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Reasons why a watch is ended.
var (
	errInterrupted = errors.New("it was interrupted")
	errTimeUp      = errors.New("its time was up")
)

func newWatch() *cobra.Command {
	o := &runOptions{repeatOptions: repeatOptions{runs: 1}, cgroup: cli.NewChoice("auto")}
	o.request = &proto.LaunchRequest{Cgroup: &proto.CgroupPlacement{}}
	cmd := cli.Launcher(cli.Described(help, "watch"))
	cmd.GroupID, cmd.Args = cli.GroupMeasure, cli.Arguments()
	o.flags = cmd.Flags()
	o.addMeasurementFlags(cmd, o.flags)
	cli.Group(cmd, "Measure")
	o.addRecordFlags(cmd, o.flags)
	cli.Group(cmd, "Record")
	o.addOutputFlags(cmd, o.flags)
	cli.Group(cmd, "Output")
	timeout := cli.Duration((*time.Duration)(&o.request.TimeoutNs))
	o.flags.Var(timeout, "timeout", "end the watch after this time; 0 for never")
	var kinds []string
	for _, k := range watchable {
		o.flags.String(k.flag, "", k.usage)
		kinds = append(kinds, "--"+k.flag)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		selection, err := o.check()
		if err != nil {
			return err
		}
		var named []string
		for _, k := range watchable {
			if value := o.flags.Lookup(k.flag).Value.String(); value != "" {
				named = append(named, k.flag, value)
			}
		}
		if len(named) != 2 {
			return cli.Usagef("one of %s must say what to watch (see %s --help)", cli.OrList(kinds), cmd.CommandPath())
		}
		s := &session{launch: launch{
			options: o, cmd: cmd, id: o.newID(), args: append([]string{"watch"}, named...), selection: selection,
		}}
		final, err := s.watch(named)
		if final == nil {
			return err
		}
		return o.judge(cmd, repeat.Single(final), summary.Markdown, err)
	}
	return cmd
}

// watch records what runs already, until it ends or we are told to end.
func (s *session) watch(named []string) (final *record.Record, err error) {
	what, err := findWatched(named[0], named[1])
	if err != nil {
		return nil, err
	}
	if s.output, err = s.options.openOutput(); err != nil {
		return nil, err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer signal.Stop(signals)
	if err := s.createDir(); err != nil {
		if err = errors.Join(err, s.removeDir()); !s.withoutFiles(err) {
			return nil, errors.Join(err, s.output.discard())
		}
	}
	what.Request = s.options.request
	if err := s.setSampling(what.Request); err != nil {
		return nil, s.failed(err)
	}
	info, err := s.ownRecord()
	if err != nil {
		return nil, s.failed(err)
	}
	s.streams = &sessionStreams{}
	s.screen = newScreen(s.cmd.ErrOrStderr(), s.streams, s.options)
	log := hclog.New(&hclog.LoggerOptions{
		Name: "tacho", Level: hclog.Error, Output: s.cmd.ErrOrStderr(), DisableTime: true,
	})
	w, err := executor.OpenWatch(log, what, info, s.screen.note)
	if err != nil {
		return nil, s.failed(err)
	}
	s.screen.fail(s.output.truncate())
	final = s.followWatch(w, signals)
	s.screen.fail(s.report(final))
	warnIncomplete(s.cmd, final)
	return final, nil
}

// followWatch shows what is watched until it ends, a signal comes or the time is up, and returns the record.
func (s *session) followWatch(w *executor.Watch, signals <-chan os.Signal) *record.Record {
	ctx, cancel := context.WithCancelCause(s.cmd.Context())
	defer cancel(nil)
	if timeout := time.Duration(s.options.request.GetTimeoutNs()); timeout > 0 {
		defer time.AfterFunc(timeout, func() { cancel(errTimeUp) }).Stop()
	}
	var work sync.WaitGroup
	work.Go(func() {
		select {
		case <-signals:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	})
	work.Go(func() { s.screen.follow(ctx, watchedStats(w), s.options, "") })
	final := w.Run(ctx)
	cancel(nil)
	work.Wait()
	return final
}

// watchedStats is a stream of what a watch reads.
func watchedStats(w *executor.Watch) statsOf {
	return func(ctx context.Context, interval time.Duration) (func() (*procstats.Sample, error), error) {
		return func() (*procstats.Sample, error) {
			select {
			case <-time.After(interval):
				return w.Sample(interval / 2), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}, nil
	}
}

// watchable is what tacho watch finds by a flag: the processes that belong to a value of it.
//
//nolint:gochecknoglobals // constant
var watchable = []struct{ flag, usage string }{
	{"pid", "watch the process `PID` and its descendants"},
	{"cgroup", "watch the cgroup `PATH`, absolute or relative to the mount, as /proc/PID/cgroup has it"},
	{"unit", "watch the systemd `UNIT`, such as nginx.service"},
	{"container", "watch the container `ID`, or with a process or group of that name; no daemon is asked"},
	{"slurm", "watch the Slurm `JOB`, or one of its steps: JOB.STEP"},
	{"alloc", "watch the Nomad allocation `ID`, or one of its tasks: ID/TASK"},
}

// running is a process of the host with the directories of its cgroups, by controller; that of version 2 is under the
// empty name.
type running struct {
	kernel.Identity
	folders map[string]string
}

func newRunning(id kernel.Identity, group procstats.Cgroup) running {
	folders := map[string]string{"": group.V2}
	maps.Copy(folders, group.V1)
	maps.DeleteFunc(folders, func(_, dir string) bool { return dir == "" })
	return running{id, folders}
}

// findWatched finds what the value of a flag names: processes, and the cgroups that are theirs alone.
func findWatched(flag, value string) (executor.Watched, error) {
	all, err := listRunning()
	if err != nil {
		return executor.Watched{}, err
	}
	return chooseWatched(all, flag, value)
}

func chooseWatched(all map[int]running, flag, value string) (w executor.Watched, err error) {
	refused := func(text string) error { return cli.Usagef("--%s %s: %s", flag, value, text) }
	var chosen map[int]bool
	name := ""
	if flag == "pid" {
		pid, err := strconv.Atoi(value)
		root, found := all[pid]
		if err != nil || !found {
			return w, refused("no such process")
		}
		w.Process, chosen = root.ProcessID, descendants(all, pid)
	} else {
		matches, err := matcher(flag, value)
		if err != nil {
			return w, refused(err.Error())
		}
		groups := map[string]bool{}
		chosen = map[int]bool{}
		for pid, p := range all {
			if group := matches(p); group != "" {
				groups[group], chosen[pid] = true, true
			}
		}
		if names := slices.Sorted(maps.Keys(groups)); len(names) > 1 {
			return w, refused("there are several: " + cli.AndList(names) + "; choose one with --cgroup")
		} else if len(names) > 0 {
			name = filepath.Base(names[0])
		}
	}
	if len(chosen) == 0 {
		return w, refused("no process belongs to it here")
	}
	w.Cgroup = ownGroups(all, chosen, name)
	if !w.Cgroup.Exists() && w.Process.PID == 0 {
		return w, refused("other processes are in the same cgroups; --pid watches a process and its descendants")
	}
	return w, nil
}

// listRunning lists the processes of the host.
func listRunning() (map[int]running, error) {
	host := kernel.HostFS()
	pids, err := kernel.Processes(host)
	all := make(map[int]running, len(pids))
	for _, pid := range pids {
		identity, idErr := kernel.Identify(host, pid)
		group, groupErr := kernel.FindCgroup(host, pid)
		if idErr == nil && groupErr == nil && !identity.Zombie { // others have ended
			all[pid] = newRunning(identity, group)
		}
	}
	return all, err
}

func descendants(all map[int]running, root int) map[int]bool {
	tree := map[int]bool{root: true}
	for grown := true; grown; {
		grown = false
		for pid, p := range all {
			if tree[p.PPID] && !tree[pid] {
				tree[pid], grown = true, true
			}
		}
	}
	return tree
}

// ownGroups returns the cgroups, below the roots of their hierarchies, that have all of the chosen processes and no
// other: of those of a name the outermost, for what its processes may make outside the groups they are in now.
func ownGroups(all map[int]running, chosen map[int]bool, name string) procstats.Cgroup {
	common := map[string]string{}
	for pid := range chosen {
		for controller, dir := range all[pid].folders {
			if before, known := common[controller]; known {
				dir = commonDir(before, dir)
			}
			common[controller] = dir
		}
	}
	mounts, _ := kernel.CgroupMounts(kernel.HostFS()) // they have just been read
	for controller, dir := range common {
		for above := dir; name != "" && above != "/"; above = filepath.Dir(above) {
			if filepath.Base(above) == name {
				dir = above
			}
		}
		strange := slices.ContainsFunc(mounts, func(m kernel.CgroupMount) bool { return within(m.Point, dir) })
		for pid, p := range all {
			strange = strange || !chosen[pid] && within(p.folders[controller], dir)
		}
		if strange {
			delete(common, controller)
		} else {
			common[controller] = dir
		}
	}
	own := procstats.Cgroup{V2: common[""], V1: common}
	delete(common, "")
	return own
}

func commonDir(a, b string) string {
	for !within(b, a) {
		a = filepath.Dir(a)
	}
	return a
}

// within reports whether a directory is another or below it.
func within(dir, above string) bool {
	return dir == above || strings.HasPrefix(dir, strings.TrimSuffix(above, "/")+"/")
}

// matcher returns a function that says to which group of a value a process belongs; empty if to none.
func matcher(flag, value string) (func(running) string, error) {
	switch flag {
	case "cgroup":
		mounts, err := kernel.CgroupMounts(kernel.HostFS())
		return func(p running) string { return p.below(mounts, value) }, err
	case "unit":
		if filepath.Ext(value) == "" {
			value += ".service"
		}
		return func(p running) string { return p.in(func(name string) bool { return name == value }) }, nil
	case "container":
		return func(p running) string {
			command, _ := kernel.Comm(kernel.HostFS(), p.PID) // of one that has ended
			return p.in(func(name string) bool {
				id := kernel.ContainerOf(name)
				short := len(value) >= 8 && len(id) == 64
				return name == value || id != "" && (id == value || command == value || short && strings.HasPrefix(id, value))
			})
		}, nil
	case "slurm":
		job, step, _ := strings.Cut(value, ".")
		if _, err := strconv.Atoi(job); err != nil {
			return nil, errors.New("must be the number of a job, such as 123 or 123.0")
		}
		return func(p running) string { return p.inSlurm("job_"+job, step) }, nil
	}
	id, task, _ := strings.Cut(value, "/")
	return func(p running) string {
		if group := p.in(func(name string) bool {
			alloc, of := kernel.NomadGroup(name)
			return len(id) >= 8 && strings.HasPrefix(alloc, id) && (task == "" || of == task)
		}); group != "" {
			return group
		}
		return p.inAllocation(id, task)
	}, nil
}

// in returns the outermost of a process's cgroups that has a name; empty if none has.
func (r running) in(named func(string) bool) string {
	for _, controller := range slices.Sorted(maps.Keys(r.folders)) {
		names := strings.Split(r.folders[controller], "/")
		for at, name := range names {
			if name != "" && named(name) {
				return strings.Join(names[:at+1], "/")
			}
		}
	}
	return ""
}

// below returns the path of a cgroup if the process is in it or below it.
func (r running) below(mounts []kernel.CgroupMount, path string) string {
	for controller, dir := range r.folders {
		for _, m := range mounts {
			if m.Has(controller) && (within(dir, filepath.Clean(path)) || within(dir, filepath.Join(m.Point, path))) {
				return path
			}
		}
	}
	return ""
}

// inSlurm returns the cgroup of a job, or of its step, if the process is in it.
func (r running) inSlurm(job, step string) string {
	group := r.in(func(name string) bool { return name == job })
	if group == "" || step == "" {
		return group
	}
	return r.in(func(name string) bool { return name == "step_"+step })
}

// inAllocation names the task of an allocation that a process belongs to by its environment: drivers that start
// containers give the groups names of their own.
func (r running) inAllocation(id, task string) string {
	alloc, name := kernel.NomadTask(kernel.HostFS(), r.PID)
	if len(id) < 8 || !strings.HasPrefix(alloc, id) || task != "" && name != task {
		return ""
	}
	return alloc
}
