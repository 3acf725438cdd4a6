// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// platformCommands are the commands that need an executor process.
func platformCommands() []*cobra.Command {
	return []*cobra.Command{newAttach(), newExecutors(), newStop()}
}

// detach leaves the command running and names the run on stdout, for scripts.
func (s *session) detach(launched *proto.LaunchResponse) error {
	how := fmt.Sprintf("tacho attach %s follows it, tacho stop %s ends it", s.id, s.id)
	if s.dir == "" {
		how = fmt.Sprintf("it keeps no record and its output goes nowhere; tacho executors kill %s ends it", s.id)
	}
	s.screen.note(fmt.Sprintf("running as process %d; %s", launched.GetMain().GetPid(), how))
	_, err := fmt.Fprintln(s.cmd.OutOrStdout(), s.id)
	return errors.Join(err, s.client.Close(), s.streams.close())
}

func newAttach() *cobra.Command {
	cmd := launcher(&cobra.Command{
		Use:   "attach RUN",
		Short: "Follow a run that was detached, to its end",
		Long: `Show the output of a detached run from its beginning, follow it to its end, and exit with its code.
Ctrl-C stops following; the run goes on.

` + runWord,
		Example: `  tacho attach last`,
		Args:    arguments("RUN"),
		GroupID: groupMeasure,
	})
	outputDir := outputDirFlag(cmd.Flags())
	cmd.ValidArgsFunction = completeRuns(outputDir, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		entry, err := findRun(*outputDir, args[0])
		if err != nil {
			return err
		}
		return attach(cmd, entry)
	}
	return cmd
}

func attach(cmd *cobra.Command, entry record.Entry) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	c, err := visit(ctx, entry)
	switch {
	case isGone(err):
		if err := printOutput(cmd, entry.Dir); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		_, final, waitErr := followOutput(ctx, cmd, c, entry.Dir)
		if final != nil {
			tellIncomplete(cmd, final)
		}
		if err := c.Close(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return exitWith(exitOwnFault, errors.New("no longer following; the run goes on"))
		}
		if waitErr != nil && !errors.Is(waitErr, client.ErrLost) {
			return waitErr
		}
	}
	return ended(cmd, entry)
}

// followOutput copies the run's captured output while it waits for the end.
func followOutput(ctx context.Context, cmd *cobra.Command, c *client.Client, dir string) (*proto.Exit, *record.Record, error) {
	following, stop := context.WithCancel(ctx)
	outputs := make(chan error, 2)
	for name, to := range outputsOf(cmd) {
		go func() { outputs <- tail(following, filepath.Join(dir, name), to) }()
	}
	exit, final, err := c.Wait(ctx)
	stop()
	return exit, final, errors.Join(err, <-outputs, <-outputs)
}

// outputsOf says where the files of a run's output are shown.
func outputsOf(cmd *cobra.Command) map[string]io.Writer {
	return map[string]io.Writer{"stdout": cmd.OutOrStdout(), "stderr": cmd.ErrOrStderr()}
}

// printOutput shows the captured output of a run that has ended.
func printOutput(cmd *cobra.Command, dir string) error {
	ended, end := context.WithCancel(cmd.Context())
	end()
	var errs []error
	for name, to := range outputsOf(cmd) {
		errs = append(errs, tail(ended, filepath.Join(dir, name), to))
	}
	return errors.Join(errs...)
}

// tail copies a growing file until ctx ends, and then what is left of it. A run that keeps no output has none.
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

// ended reports a run whose executor is gone: it writes the record before it goes.
func ended(cmd *cobra.Command, entry record.Entry) error {
	r, err := record.Read(entry.Dir)
	if err != nil {
		return err
	}
	if r.State != record.Exited || r.ExitCode == nil {
		return exitWith(exitOwnFault, fmt.Errorf("run %s was lost with its executor", entry.Name))
	}
	if err := writeSummary(cmd, cmd.ErrOrStderr(), false, entry.Name, r); err != nil {
		return err
	}
	return exitOf(&proto.Exit{Code: int32(*r.ExitCode), Verdict: string(r.Diagnosis.Verdict)})
}

// visit connects to the executor of a run.
func visit(ctx context.Context, entry record.Entry) (*client.Client, error) {
	address, err := addressOf(entry)
	if err != nil {
		return nil, err
	}
	return client.Visit(ctx, *address)
}

// isGone reports whether an error of visit says that the executor is not there any more.
func isGone(err error) bool {
	return errors.Is(err, client.ErrLost) || errors.Is(err, client.ErrOtherBoot)
}

// addressOf finds the executor that a record names, or what it left behind; client.ErrLost where there is neither. The
// folder of the record says nothing: it has other paths too, and may have been moved.
func addressOf(entry record.Entry) (*wire.Address, error) {
	r := entry.Record
	if r.Executor == nil {
		return nil, fmt.Errorf("run %s: %w", entry.Name, client.ErrLost)
	}
	all, err := client.List(client.DefaultRuntimeDir())
	if address := keptAddress(r.Socket); address != nil {
		all = append(all, address)
	}
	who := procstats.ProcessID{PID: r.Executor.PID, Start: r.Executor.StartTicks}
	for _, address := range all {
		if address.Executor == who && address.BootID == r.BootID {
			return address, nil
		}
	}
	if stateOf(r, kernel.HostFS()) == record.Running {
		return nil, errors.Join(fmt.Errorf("run %s is running, but its executor, process %d, is not found in %s: is it another user's?",
			entry.Name, who.PID, client.DefaultRuntimeDir()), err)
	}
	return nil, errors.Join(fmt.Errorf("run %s: %w", entry.Name, client.ErrLost), err)
}

// keptAddress reads the address beside a socket, which is not in our runtime folder where XDG_RUNTIME_DIR or TMPDIR was
// another one then. It is nil where there is none, or not in a folder of our own.
func keptAddress(socket string) *wire.Address {
	folder := filepath.Dir(socket)
	if folders, err := client.Folders(filepath.Dir(folder)); err != nil || !slices.Contains(folders, folder) {
		return nil
	}
	address, err := wire.ReadAddress(folder)
	if err != nil {
		return nil
	}
	return address
}

func newStop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop RUN",
		Short: "Stop a run and everything it started",
		Long: `Ask a run to end, wait, then kill what is left of it, and return when nothing is. What is left of a run whose
executor and tacho run have died is killed at once.

` + runWord,
		Example: `  tacho stop last
  tacho stop last --signal INT --grace 30s`,
		Args:    arguments("RUN"),
		GroupID: groupMeasure,
	}
	outputDir := outputDirFlag(cmd.Flags())
	signalName := cmd.Flags().String("signal", "", "the signal that asks for the end (default: the run's --kill-signal)")
	grace := cmd.Flags().Duration("grace", 5*time.Second, "how long to wait before the kill; 0 kills at once")
	cmd.ValidArgsFunction = completeRuns(outputDir, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		number := unix.Signal(0)
		if *signalName != "" {
			var err error
			if number, err = parseSignal(*signalName); err != nil {
				return err
			}
		}
		if *grace < 0 {
			return usagef("--grace %s: it cannot be negative", *grace)
		}
		entry, err := findRun(*outputDir, args[0])
		if err != nil {
			return err
		}
		c, err := visit(cmd.Context(), entry)
		if isGone(err) {
			return stopRemains(cmd, entry)
		}
		if err != nil {
			return err
		}
		err = c.Stop(cmd.Context(), number, *grace)
		if errors.Is(err, client.ErrLost) {
			err = nil // it ended with its task
		}
		return errors.Join(err, c.Close())
	}
	return cmd
}

// stopRemains kills what is left of a run whose executor is gone. Where its tacho run is there, that does it.
func stopRemains(cmd *cobra.Command, entry record.Entry) error {
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
	complain(cmd.ErrOrStderr(), fmt.Errorf("run %s had lost its executor; what was left of it is killed", entry.Name))
	return nil
}

// clearStrays kills what dead executors left whose callers are gone as well. What somebody still owns is theirs.
func clearStrays(ctx context.Context) error {
	all, err := client.List(client.DefaultRuntimeDir())
	errs := []error{err}
	for _, address := range all {
		if client.Alive(*address) || client.Owned(*address) {
			continue
		}
		errs = append(errs, killExecutor(ctx, *address))
	}
	return errors.Join(append(errs, sweep(client.DefaultRuntimeDir(), time.Now()))...)
}

// unlaunchedAge is how old the folder of an executor without a task is when it is taken for abandoned: by itself none
// waits as long for one.
const unlaunchedAge = time.Minute

// sweep removes the folders of executors whose callers were killed before there was a task.
func sweep(runtimeDir string, now time.Time) error {
	folders, err := client.Folders(runtimeDir)
	errs := []error{err}
	for _, folder := range folders {
		info, err := os.Stat(folder)
		if err != nil || now.Sub(info.ModTime()) < unlaunchedAge {
			continue
		}
		if _, err := wire.ReadAddress(folder); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := client.RemoveAbandoned(folder); !errors.Is(err, client.ErrOwned) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
