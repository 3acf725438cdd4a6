// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// executorDirs are the flags for where to look for executors.
type executorDirs struct {
	runtimeDir, dataDir string
}

func newExecutors() *cobra.Command {
	cmd := cli.Described(help, "executors")
	cmd.GroupID = cli.GroupHost
	var f executorDirs
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.runtimeDir, "runtime-dir", "", "only this runtime `DIR`, such as the runtime_dir of a plugin")
	flags.StringVar(&f.dataDir, "data-dir", datadir.Default, "data `DIR` of the agent")
	_ = cmd.MarkPersistentFlagDirname("runtime-dir") // these fail only for flags that do not exist
	_ = cmd.MarkPersistentFlagDirname("data-dir")
	cli.AddSubcommands(cmd, newExecutorsLs(&f), newExecutorsKill(&f))
	return cmd
}

// runtimeDirs returns the directories that may have executors of any owner.
func (f *executorDirs) runtimeDirs() []string {
	if f.runtimeDir != "" {
		return []string{f.runtimeDir}
	}
	return client.ExistingRuntimeDirs()
}

// list returns all executors, and without --runtime-dir those that run elsewhere.
func (f *executorDirs) list() ([]*listed, error) {
	dirs := datadir.AllExecutors(f.runtimeDirs(), append([]string{f.dataDir}, datadir.AllDev()...))
	if f.runtimeDir == "" {
		dirs = append(dirs, client.RunningDirs(kernel.HostFS())...)
	}
	return lookIn(dirs...)
}

// isAgents reports whether an executor is of the agent with the data directory.
func (f *executorDirs) isAgents(l *listed) bool {
	dir := filepath.Dir(l.Folder)
	return dir == datadir.Executors(f.dataDir) || filepath.Base(dir) == datadir.SharedName(f.dataDir)
}

// refuseAgent returns an error while the agent runs: it would start again what is killed.
func (f *executorDirs) refuseAgent() error {
	connection, err := net.Dial("unix", datadir.Socket(f.dataDir))
	if err != nil {
		return nil //nolint:nilerr // nothing listens
	}
	connection.Close()
	return fmt.Errorf("data directory %s is in use by an agent; stop it first", f.dataDir)
}

func newExecutorsLs(f *executorDirs) *cobra.Command {
	cmd := cli.Described(help, "executors ls")
	format := cli.AddFormat(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := f.list()
		if len(all) == 0 && format.String() == "table" {
			if err == nil {
				cli.PrintError(cmd.ErrOrStderr(), errors.New("no executors"))
			}
			return err
		}
		return errors.Join(err, cli.Print(cmd, format, all, func(p cli.Palette) string {
			t := cli.Table{Leave: []int{4, 5}, Least: map[int]int{6: 14}}
			t.AddTexts("ID", "STATE", "OWNER", "AGE", "EXECUTOR", "MAIN", "COMMAND", "REMEDY")
			for _, l := range all {
				t.AddTexts(l.ID, string(l.State), cli.Printable(l.OwnerText), procstats.AgeText(time.Since(l.Since)),
					fmt.Sprint(l.Executor.PID), fmt.Sprint(l.Main.PID), cli.Printable(strings.Join(l.Command, " ")),
					cmp.Or(l.Remedy, cli.Printable(l.Where)))
			}
			return t.Render(p)
		}))
	}
	return cmd
}

func newExecutorsKill(f *executorDirs) *cobra.Command {
	cmd := cli.Described(help, "executors kill")
	cmd.Args = cli.Arguments("[ID...]")
	orphans := cmd.Flags().Bool("orphans", false, "kill what all orphans left behind")
	agents := cmd.Flags().Bool("agent", false,
		"kill all executors of the agent with that --data-dir, which must not be running")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && !*orphans && !*agents {
			return cli.Usagef("no executor given (tacho executors ls lists them)")
		}
		if *agents {
			if err := f.refuseAgent(); err != nil {
				return err
			}
		}
		all, err := f.list()
		errs := []error{err}
		found := map[string]bool{}
		for _, l := range all {
			found[l.ID] = true
			if slices.Contains(args, l.ID) || *orphans && l.State == stateOrphan || *agents && f.isAgents(l) {
				errs = append(errs, l.kill(cmd.Context()))
			}
		}
		for _, id := range args {
			if !found[id] {
				errs = append(errs, fmt.Errorf("no executor %q (tacho executors ls lists them)", id))
			}
		}
		return errors.Join(errs...)
	}
	return cmd
}

// executorState is the state of an executor, see tacho executors ls.
type executorState string

const (
	stateStarting executorState = "starting"
	stateRunning  executorState = "running"
	stateEnded    executorState = "ended"
	stateOrphan   executorState = "orphan"
	// stateElsewhere is of an executor that cannot be seen from here.
	stateElsewhere executorState = "elsewhere"
)

// listed is an executor in a list.
type listed struct {
	*wire.Address
	State executorState `json:"state"`
	// OwnerText says whose task it is, and Connected whether the owner's process is there.
	OwnerText string `json:"owner"`
	Connected bool   `json:"connected"`
	// Since is when the executor was started.
	Since time.Time `json:"started_at"`
	// Where is where it is if that is elsewhere.
	Where string `json:"where,omitempty"`
	// Remedy is a command to get rid of it; empty if nothing is wrong.
	Remedy string `json:"remedy,omitempty"`
}

// lookIn looks at the executors in runtime directories. Those of other users are skipped.
func lookIn(runtimeDirs ...string) (all []*listed, err error) {
	var errs []error
	for i, dir := range runtimeDirs {
		if slices.Contains(runtimeDirs[:i], dir) {
			continue
		}
		folders, err := client.Folders(dir)
		if !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, err)
		}
		for _, folder := range folders {
			l, err := look(folder)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			all = append(all, l)
		}
	}
	return all, errors.Join(errs...)
}

// look looks at the directory of an executor. One without an address is of an executor that was killed before it could
// write one.
func look(folder string) (*listed, error) {
	address, err := wire.ReadAddress(folder)
	if errors.Is(err, fs.ErrNotExist) {
		address, err = &wire.Address{ID: filepath.Base(folder), Folder: folder}, nil
	}
	if err != nil {
		return nil, err
	}
	l := &listed{Address: address, Connected: client.Owned(*address), OwnerText: "tacho run"}
	// The lock of an executor is never written to.
	if info, err := os.Lstat(filepath.Join(folder, client.LockFile)); err == nil {
		l.Since = info.ModTime()
	}
	if address.AllocID != "" {
		l.OwnerText = fmt.Sprintf("task %s of allocation %.8s", address.Task, address.AllocID)
	}
	if !l.Connected {
		l.OwnerText = "(" + l.OwnerText + ")"
	}
	found := client.Find(*address)
	where, isElsewhere := errors.AsType[kernel.ElsewhereError](found)
	reachable := found == nil && cmp.Or(address.Socket, wire.FindSocket(folder)) != ""
	switch {
	case isElsewhere:
		l.State, l.Where = stateElsewhere, where.Error()
	case !reachable && !l.Connected:
		l.State, l.Remedy = stateOrphan, "tacho executors kill "+address.ID
	case address.Main.PID == 0:
		l.State = stateStarting
	case kernel.Find(kernel.HostFS(), address.Home, address.Main, "") == nil:
		l.State = stateRunning
	default:
		l.State = stateEnded
		if !l.Connected {
			l.Remedy = "start its owner, or tacho executors kill " + address.ID
		}
	}
	return l, nil
}

// kill ends the executor with its task, whatever its state is.
func (l *listed) kill(ctx context.Context) error {
	if l.BootID == "" { // nothing but a directory
		return client.RemoveAbandoned(l.Folder)
	}
	return killExecutor(ctx, *l.Address)
}

const (
	// killLimit bounds how long the end of an executor may take, and killGrace that of its task.
	killLimit = 20 * time.Second
	killGrace = 5 * time.Second
)

// killExecutor stops the task of an executor and then the executor, or kills what a dead executor left.
func killExecutor(ctx context.Context, address wire.Address) error {
	ctx, cancel := context.WithTimeout(ctx, killLimit)
	defer cancel()
	var reported error
	if errors.Is(client.Find(address), client.ErrLost) {
		reported = killReported(address) // the rest is killed all the same
	}
	if err := client.End(ctx, address, 0, killGrace); err != nil || address.RecordDir == "" {
		return errors.Join(reported, err)
	}
	failpoint.At("run.orphan.killed")
	// An executor that ended normally has completed its record. A record that could not be read is an error already.
	if err := markLost(address.RecordDir, time.Time{}); reported == nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return reported
}

// visit connects to the executor of a run.
func visit(ctx context.Context, entry record.Entry) (*client.Client, error) {
	address, err := addressOf(entry)
	if err != nil {
		return nil, err
	}
	return client.Visit(ctx, *address)
}

// addressOf finds the address of the executor in a record, which a dead executor leaves behind; otherwise
// client.ErrLost. It does not compare the directory of the record, which may have been moved since.
func addressOf(entry record.Entry) (*wire.Address, error) {
	r := entry.Record
	if r.Executor == nil {
		return nil, fmt.Errorf("run %s: %w", entry.Name, client.ErrLost)
	}
	// The socket is in none of our runtime directories if XDG_RUNTIME_DIR or TMPDIR has changed since.
	dirs := client.ExistingRuntimeDirs(filepath.Dir(filepath.Dir(r.Socket)))
	all, err := lookIn(dirs...)
	who := procstats.ProcessID{PID: r.Executor.PID, Start: r.Executor.StartTicks}
	for _, l := range all {
		if l.Executor == who && l.BootID == r.BootID {
			return l.Address, nil
		}
	}
	why := fmt.Errorf("run %s: %w", entry.Name, client.ErrLost)
	rundir.UpdateState(r, kernel.HostFS())
	switch {
	case r.Where != "":
		why = fmt.Errorf("run %s is %s", entry.Name, r.Where)
	case r.State == record.Running && r.Socket == "":
		why = fmt.Errorf("run %s is a watch of what runs already, or about to start; Ctrl-C, or kill -INT %d, ends it",
			entry.Name, who.PID)
	case r.State == record.Running:
		why = fmt.Errorf("run %s is running, but its executor (process %d) is not in %s; it may belong to another user",
			entry.Name, who.PID, cli.OrList(dirs))
	}
	return nil, errors.Join(why, err)
}

// lost kills the processes of a dead executor and completes the record.
func (s *session) lost() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ended := time.Now()
	failpoint.At("run.lost")
	err := s.client.KillTask(ctx)
	failpoint.At("run.lost.killed")
	switch {
	case s.dir == "":
	case s.isStarting(): // the command was never started
		err = errors.Join(err, s.removeDir())
	default:
		err = errors.Join(err, markLost(s.dir, ended))
	}
	err = errors.Join(err, s.client.Close(), s.streams.close())
	// The executor has been reaped: all children of this subreaper are processes of the command.
	err = errors.Join(err, process.KillChildren(ctx, kernel.HostFS()))
	s.screen.endLine()
	return errors.Join(fmt.Errorf("the command was killed: %w", client.ErrLost), err)
}

// markLost completes the record of a run whose executor died before it did. If the time is unknown, ended is zero.
func markLost(dir string, ended time.Time) error {
	r, err := record.Read(dir)
	if err != nil || r.State != record.Running {
		return err
	}
	r.State, r.EndedAt = record.Lost, ended
	r.FillFromReports(record.ReadUsage(dir))
	if !ended.IsZero() {
		r.WallSeconds = new(ended.Sub(r.StartedAt).Seconds())
	}
	r.Diagnosis = record.Diagnose(record.Evidence{Cause: record.ExecutorLost})
	return putRecord(dir, r)
}

// putRecord writes a record that no executor writes.
func putRecord(dir string, r *record.Record) error {
	store, err := record.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(store.Put(r), store.RemoveTemporary(), store.Close())
}

// killReported kills what a dead executor has reported of a run without a cgroup: nothing else finds a process in a
// session of its own. The record must name this executor: others may be able to replace its directory.
func killReported(address wire.Address) error {
	if address.RecordDir == "" || address.Cgroup.Encloses() {
		return nil
	}
	r, err := record.Read(address.RecordDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // what it reported is not known
	}
	if err != nil {
		return nil //nolint:nilerr // a run without a record has no reports
	}
	home, own := r.Measurer()
	if own != address.Executor || home.BootID != address.BootID ||
		!isOurs(filepath.Join(address.RecordDir, record.UsageFile)) {
		return nil
	}
	var errs []error
	killed := make(map[procstats.ProcessID]bool)
	for report, err := range record.ReadUsage(address.RecordDir) {
		if err != nil || report.Processes == nil {
			continue // the last line may be cut short
		}
		for _, row := range report.Processes.Rows {
			if id := (procstats.ProcessID{PID: row.PID, Start: row.StartTicks}); id.PID > 0 && !killed[id] {
				killed[id] = true
				errs = append(errs, process.Kill(id.PID, func() bool { return kernel.Alive(kernel.HostFS(), id) }))
			}
		}
	}
	return errors.Join(errs...)
}

// isOurs reports whether a file is this user's, whom alone it lets write.
func isOurs(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// killOrphans kills what dead executors in the runtime directories, this user's and others, left if their owners are
// dead, too, or were killed before there was an executor. One that is about to write its address fails then.
func killOrphans(ctx context.Context, others ...string) error {
	all, err := lookIn(client.ExistingRuntimeDirs(others...)...)
	errs := []error{err}
	for _, l := range all {
		if l.State == stateOrphan && !client.Alive(*l.Address) {
			if err := l.kill(ctx); !errors.Is(err, client.ErrOwned) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// endLimit bounds how long a command is held up by what is left of earlier runs.
const endLimit = 5 * time.Second

// EndOrphans ends what is left of a run whose tacho run and executor were both killed, and says so to the session that
// started it. A driver's tasks belong to its host, and some commands handle orphans themselves.
func EndOrphans(cmd *cobra.Command) {
	for c := cmd; c != nil; c = c.Parent() {
		if slices.Contains([]string{"executors", "stop", "prune", "completion", "help"}, c.Name()) {
			return
		}
	}
	other, _ := cmd.Flags().GetString("runtime-dir") // few commands have it
	var all []*wire.Address
	for _, dir := range client.ExistingRuntimeDirs(other) {
		listed, _ := client.List(dir) // what cannot be read is for tacho executors ls
		all = append(all, listed...)
	}
	session, _ := unix.Getsid(0) // never fails
	for _, address := range all {
		if address.AllocID != "" || !isOrphan(cmd.Context(), address) {
			continue
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), endLimit)
		err := killExecutor(ctx, *address)
		cancel()
		if err == nil {
			err = lostExecutor(address.ID)
		}
		if address.Session == session {
			cli.PrintError(cmd.ErrOrStderr(), err)
		}
	}
}

// isOrphan reports whether an executor and its owner are dead. It waits if one of them is dying: they were killed a
// moment ago.
func isOrphan(ctx context.Context, address *wire.Address) bool {
	const interval, limit = 10 * time.Millisecond, 300 * time.Millisecond
	for began := time.Now(); ; {
		found := client.Find(*address)
		switch {
		case found == nil && process.StateOf(kernel.HostFS(), address.Executor) == process.Alive,
			found != nil && !client.IsGone(found):
			return false
		case found != nil && !client.Owned(*address):
			// An executor that ended normally since it was listed has removed its directory.
			left, err := wire.ReadAddress(address.Folder)
			return err == nil && left.Executor == address.Executor
		case time.Since(began) > limit:
			return false
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return false
		}
	}
}

// lostExecutor says what was done about a run.
func lostExecutor(run string) error {
	return fmt.Errorf("run %s had lost its executor; killed what was left of it", run)
}
