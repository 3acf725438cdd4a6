// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/internal/failpoint"
)

func newAttach() *cobra.Command {
	cmd := cli.Launcher(cli.Described(help, "attach"))
	cmd.GroupID = cli.GroupMeasure
	rundir.ForRuns(cmd, 1, rundir.Last(), func(cmd *cobra.Command, runs []record.Entry) error {
		return attach(cmd, runs[0])
	})
	return cmd
}

func attach(cmd *cobra.Command, entry record.Entry) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	var final *record.Record // from the executor, or from disk if the executor is gone
	c, err := visit(ctx, entry)
	switch {
	case client.IsGone(err), err != nil && isComplete(entry.Dir):
		now, end := context.WithCancel(ctx)
		end()
		if err := copyOutput(now, cmd, entry.Dir); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		failpoint.At("run.attach.connected")
		final, err = followOutput(ctx, cmd, c, entry.Dir)
		if err := c.Close(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return errors.New("no longer following; the run continues")
		}
		if err != nil && !errors.Is(err, client.ErrLost) && !isComplete(entry.Dir) {
			return err
		}
	}
	if final != nil {
		warnIncomplete(cmd, final)
	} else if final, err = record.Read(entry.Dir); err != nil {
		return err
	}
	return ended(cmd, entry, final)
}

// isComplete reports whether the record of a run, if it has one, is complete. Its executor may be about to exit then,
// and does not answer.
func isComplete(dir string) bool {
	r, err := record.Read(dir)
	return dir != "" && err == nil && r.State != record.Running
}

// followOutput copies the captured output of a run while it waits for its end.
func followOutput(ctx context.Context, cmd *cobra.Command, c *client.Client, dir string) (*record.Record, error) {
	following, stop := context.WithCancel(ctx)
	copied := make(chan error, 1)
	go func() { copied <- copyOutput(following, cmd, dir) }()
	_, final, err := c.Wait(ctx)
	stop()
	return final, errors.Join(err, <-copied)
}

// copyOutput copies the captured output of a run until ctx ends, and then its rest.
func copyOutput(ctx context.Context, cmd *cobra.Command, dir string) error {
	stdout := make(chan error, 1)
	go func() { stdout <- tail(ctx, filepath.Join(dir, "stdout"), cmd.OutOrStdout()) }()
	return errors.Join(tail(ctx, filepath.Join(dir, "stderr"), cmd.ErrOrStderr()), <-stdout)
}

// tail copies a growing file until ctx ends, and then its rest. Without a file there is no output.
func tail(ctx context.Context, path string, to io.Writer) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	const pause = 100 * time.Millisecond
	for {
		ended := ctx.Err() != nil
		if _, err := io.Copy(to, file); err != nil {
			return fmt.Errorf("follow output: %w", err)
		}
		if ended {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// ended reports how a run ended from its record, which an executor completes before it exits.
func ended(cmd *cobra.Command, entry record.Entry, r *record.Record) error {
	if r.Diagnosis.Verdict == record.StartFailed {
		return fmt.Errorf("run %s: %s", entry.Name, r.End().Summary)
	}
	if r.State != record.Exited || r.ExitCode == nil {
		return fmt.Errorf("run %s was lost with its executor", entry.Name)
	}
	word := rundir.Word(filepath.Dir(entry.Dir), entry.Name)
	if err := summary.Write(cmd, cmd.ErrOrStderr(), false, word, r); err != nil {
		return err
	}
	return exitOf(r)
}

// detach leaves the command running and prints the name of the run on stdout, for scripts.
func (s *session) detach(ctx context.Context, launched *proto.LaunchResponse) error {
	if err := s.client.Confirm(ctx); err != nil {
		return s.abandon(err)
	}
	failpoint.At("run.detach.confirmed")
	word := rundir.Word(s.options.outputDir, s.id)
	how := fmt.Sprintf("tacho attach %s follows it, tacho stop %s stops it", word, word)
	if s.dir == "" {
		how = fmt.Sprintf("without record and output; tacho executors kill %s stops it", s.id)
	}
	s.screen.note(fmt.Sprintf("running as process %d: %s", launched.GetMain().GetPid(), how))
	_, err := fmt.Fprintln(s.cmd.OutOrStdout(), s.id)
	return errors.Join(err, s.client.Close(), s.streams.close())
}

func newStop() *cobra.Command {
	cmd := cli.Described(help, "stop")
	cmd.GroupID = cli.GroupMeasure
	signalName := cmd.Flags().String("signal", "", "`SIGNAL` to send first (default: the --kill-signal of the run)")
	grace := 5 * time.Second
	cmd.Flags().Var(cli.Duration(&grace), "grace", "time to wait before the kill; 0 kills at once")
	rundir.ForRuns(cmd, 1, nil, func(cmd *cobra.Command, runs []record.Entry) error {
		number, err := unix.Signal(0), error(nil)
		if *signalName != "" {
			if number, err = parseSignal("--signal", *signalName); err != nil {
				return err
			}
		}
		entry := runs[0]
		c, err := visit(cmd.Context(), entry)
		if client.IsGone(err) {
			return killRemains(cmd, entry)
		}
		if err != nil {
			return err
		}
		failpoint.At("run.stop.connected")
		err = c.Stop(cmd.Context(), number, grace)
		failpoint.At("run.stop.stopped")
		if errors.Is(err, client.ErrLost) {
			err = nil // it ended with its task
		}
		return errors.Join(err, c.Close())
	})
	return cmd
}

// killRemains kills what a dead executor left of a run, unless its tacho run is alive and does so.
func killRemains(cmd *cobra.Command, entry record.Entry) error {
	address, err := addressOf(entry)
	if errors.Is(err, client.ErrLost) || err == nil && client.Owned(*address) {
		return fmt.Errorf("run %s is not running", entry.Name)
	}
	if err != nil {
		return err
	}
	if err := killExecutor(cmd.Context(), *address); err != nil {
		return err
	}
	cli.PrintError(cmd.ErrOrStderr(), lostExecutor(entry.Name))
	return nil
}
