// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"context"
	"errors"
	"os"
	"os/signal"
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
