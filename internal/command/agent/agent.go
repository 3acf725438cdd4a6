// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Package agent has the agent command: it starts the agent of one node and serves it on its socket and over TCP.
package agent

import (
	"cmp"
	"context"
	_ "embed" // of the help
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/regular"
	"github.com/tachograph/tacho/procstats/kernel"
)

// gcPercent is how much of the live heap and the stacks may be garbage. An agent with many tasks allocates little a
// second, and the runtime's 100 would double what it holds; at 25 the GC takes a tenth of the CPU time.
const gcPercent = 50

// leastFiles is how many files the agent must be able to open, and its executors, which have the same limit.
const leastFiles = 128

// agentOptions are the flags of tacho agent.
type agentOptions struct {
	config  []string
	dev     bool
	dataDir string
	jobs    []string
}

//go:embed help.txt
var help string

// Command returns tacho agent.
func Command() *cobra.Command {
	var o agentOptions
	cmd := cli.Described(help, "agent")
	cmd.GroupID = cli.GroupHost
	flags := cmd.Flags()
	flags.StringArrayVar(&o.config, "config", nil, "configuration `FILE`, or directory with *.hcl files; may be repeated")
	flags.BoolVar(&o.dev, "dev", false,
		"development mode: publish everything, persist nothing, and stop all tasks at the end")
	flags.StringVar(&o.dataDir, "data-dir", "", "`DIR` for state and allocations")
	flags.StringArrayVar(&o.jobs, "job", nil, "job `FILE` to run when the agent is ready; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return runAgent(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	cmd.AddCommand(newTrial())
	return cmd
}

// newTrial returns the command in which the agent evaluates a job file, which may not end, before it does so itself.
func newTrial() *cobra.Command {
	return &cobra.Command{
		Use:    job.TrialCommand,
		Short:  "Evaluate a job file within limits; started by the agent",
		Hidden: true,
		Args:   cobra.NoArgs,
		Run:    func(cmd *cobra.Command, _ []string) { os.Exit(job.TrialMain(cmd.InOrStdin())) },
	}
}

// LongDashes allows -config and -dev with one dash for tacho agent, as in Nomad.
func LongDashes(args []string) []string {
	if len(args) == 0 || args[0] != "agent" {
		return args
	}
	out := slices.Clone(args)
	for i, arg := range args {
		if arg == "-dev" || arg == "-config" || strings.HasPrefix(arg, "-config=") && arg != "-config=" {
			out[i] = "-" + arg
		}
	}
	return out
}

// load reads the configuration, with the flags applied.
func (o agentOptions) load() (config.Config, error) {
	c, err := config.Load(o.config...)
	if err != nil {
		return c, err
	}
	if o.dev {
		c.Dev = true
		t := &c.Telemetry
		t.PublishAllocationMetrics, t.PublishNodeMetrics, t.PrometheusMetrics = true, true, true
		if len(o.config) == 0 {
			c.LogLevel = "warn" // the console shows events
		}
	}
	if o.dataDir != "" {
		if c.DataDir, err = cli.Absolute(o.dataDir); err != nil {
			return c, fmt.Errorf("--data-dir %w", err)
		}
	}
	return c, c.Check()
}

// stopSignals returns the signals that stop the agent. A development agent without a file to reload ends with its
// terminal, unless it was started by nohup: its tasks would run on unseen.
func (o agentOptions) stopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if o.dev && len(o.config) == 0 && !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// runAgent runs the agent until a signal stops it.
func runAgent(ctx context.Context, o agentOptions, stdout, stderr io.Writer) (err error) {
	c, err := o.load()
	if err != nil {
		return err
	}
	if err := kernel.CheckFileLimit("tacho agent", leastFiles); err != nil {
		return err
	}
	if o.dev && o.dataDir == "" {
		if c.DataDir, err = datadir.NewDev(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.DataDir)) }()
	}
	e, err := openEndpoint(c)
	if err != nil {
		return err
	}
	defer closeListener(e.tcp)
	if e.tcp != nil { // the kernel has chosen a port for 0
		c.Ports.HTTP = int(netip.MustParseAddrPort(e.tcp.Addr().String()).Port())
	}
	log := hclog.New(&hclog.LoggerOptions{Name: "tacho", Level: hclog.LevelFromString(c.LogLevel), Output: stderr})
	ctx, stop := signal.NotifyContext(ctx, o.stopSignals()...)
	defer stop()
	broken := make(chan os.Signal, 1)
	// A reader of the output that is gone must not end the agent: writes fail instead.
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	a := agent.New(c, log)
	// The agent outlives its listeners, so that the last request is completed.
	agentCtx, endAgent := context.WithCancel(context.WithoutCancel(ctx))
	defer endAgent()
	ctx, endServing := context.WithCancel(ctx)
	defer endServing()
	ended := make(chan error, 1)
	go func() {
		ended <- a.Run(agentCtx)
		endServing()
	}()
	select {
	case <-a.Opened():
		err = serveAgent(ctx, a, c, e, log, o, stdout)
	case <-ctx.Done():
	}
	endAgent()
	select {
	case runErr := <-ended:
		err = errors.Join(err, runErr)
	case <-time.After(time.Minute):
		err = errors.Join(err, errors.New("the agent did not stop within a minute"))
	}
	return err
}

// startTime is when pages are given back that only starting took.
const startTime = 10 * time.Second

// releaseFilePages unmaps all pages of files that this process has mapped and cannot write, as of its binary: those in
// use are mapped again when they are read, which is half of them. A mapping with pages of its own, which a relocated
// binary has, stays.
func releaseFilePages() {
	text, _ := os.ReadFile("/proc/self/smaps") // without which all stay
	mapping := regexp.MustCompile(`(?m)^(\w+)-(\w+) r-.p .*/.*\n(?:[A-Z].*\n)*Anonymous: +0 kB\n`)
	for _, found := range mapping.FindAllSubmatch(text, -1) {
		from, _ := strconv.ParseUint(string(found[1]), 16, 64)
		to, _ := strconv.ParseUint(string(found[2]), 16, 64)
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTNEED)
	}
}

// serveAgent serves an agent until ctx is done. While it recovers tasks it only says so.
func serveAgent(
	ctx context.Context, a *agent.Agent, c config.Config, e endpoint, log hclog.Logger, o agentOptions, stdout io.Writer,
) error {
	services, err := openServices(a, c, e, log)
	if err != nil {
		return err
	}
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer work.Wait()
	defer cancel()
	work.Go(func() { services.run(ctx) })
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	select {
	case <-a.Ready():
	case <-ctx.Done():
		return nil
	}
	log.Info("agent is ready", "node", a.Snapshot().Node.Name, "data_dir", c.DataDir)
	work.Go(func() { watchdog(ctx, a, log) })
	var link func() string
	if o.dev { // the output of others goes into logs, where no secret belongs
		link = services.page.SignInLink
	}
	if err := printAddresses(stdout, c, link); err != nil {
		log.Debug("print addresses", "error", err)
	}
	if o.dev {
		work.Go(func() { followEvents(ctx, stdout, a.Feed()) })
	}
	for _, file := range o.jobs {
		if err := runFile(ctx, a, file); err != nil {
			return err
		}
	}
	settled := time.AfterFunc(startTime, releaseFilePages)
	defer settled.Stop()
	notifyManager(log, daemon.SdNotifyReady)
	defer notifyManager(log, daemon.SdNotifyStopping)
	// A reload reads files, which can take for ever on a disk that hangs: the end does not wait for it.
	go attendSignals(ctx, hangups, func() error { return reload(a, services, o, log) }, services.warn, log)
	<-ctx.Done()
	return nil
}

// reloadLimit is how long a reload takes at most before the log says that it does not end.
const reloadLimit = 10 * time.Second

// attendSignals reloads the configuration on each signal, one reload at a time, and warns of aging secrets, until ctx
// is done.
func attendSignals(ctx context.Context, hangups <-chan os.Signal, reload func() error, warn func(), log hclog.Logger) {
	warn()
	aging := time.NewTicker(24 * time.Hour)
	defer aging.Stop()
	slow := time.NewTimer(0)
	defer slow.Stop()
	<-slow.C
	ended := make(chan error, 1)
	waiting := hangups // nil during a reload: the next signal is attended to after it
	for {
		select {
		case <-ctx.Done():
			return
		case <-aging.C:
			warn()
		case <-waiting:
			notifyManager(log, daemon.SdNotifyReloading)
			waiting = nil
			slow.Reset(reloadLimit)
			go func() { ended <- reload() }()
		case <-slow.C:
			log.Error("reload configuration: a file cannot be read; everything stays as it was until it can",
				"after", reloadLimit)
		case err := <-ended:
			waiting = hangups
			slow.Stop()
			if err != nil {
				log.Error("reload configuration; everything stays as it was", "error", err)
			}
			notifyManager(log, daemon.SdNotifyReady)
		}
	}
}

// reload reads the configuration again. An error changes nothing.
func reload(a *agent.Agent, services *services, o agentOptions, log hclog.Logger) error {
	c, err := o.load()
	if err != nil {
		return err
	}
	running := a.Snapshot().Config
	if o.dev && o.dataDir == "" {
		c.DataDir = running.DataDir
	}
	c.Ports.HTTP = cmp.Or(c.Ports.HTTP, running.Ports.HTTP)
	now, err := readSecrets(c)
	if err != nil {
		return err
	}
	ignored, err := a.Reload(c)
	if err != nil {
		return err
	}
	if now.token != services.keys.token() {
		services.page.SignOutAll()
	}
	stricter := services.keys.replace(now)
	if stricter {
		services.connections.CloseAll()
	}
	log.Info("reloaded configuration", "requires_restart", ignored, "closed_connections", stricter)
	services.warn()
	return nil
}

// runFile runs the job in a file.
func runFile(ctx context.Context, a *agent.Agent, path string) error {
	text, err := regular.Read(path, job.MaxSource)
	if err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	_, _, err = a.RunJob(ctx, job.Source{Filename: path, Text: string(text)}, nil)
	return err
}

// printAddresses prints the addresses of the agent. link returns the path of a new link that signs in; nil prints none.
func printAddresses(w io.Writer, c config.Config, link func() string) error {
	addresses := ""
	if base := pageAddress(c); base != "" {
		addresses = fmt.Sprintf("page     %s/\n", base)
		if link != nil {
			addresses += fmt.Sprintf("sign in  %s%s (once, within a minute; %s prints another)\n", base, link(),
				signInCommand(c))
		}
		addresses += fmt.Sprintf("API      %s/v1/allocations\n", base)
		if c.Telemetry.PrometheusMetrics {
			addresses += fmt.Sprintf("metrics  %s/v1/metrics?format=prometheus\n", base)
		} else {
			addresses += "metrics  off (telemetry { prometheus_metrics = true } turns them on)\n"
		}
	}
	if !c.Telemetry.PublishAllocationMetrics {
		addresses += "usage    off (telemetry { publish_allocation_metrics = true } turns it on, also by SIGHUP)\n"
	}
	_, err := fmt.Fprintf(w, "%ssocket   %s\n", addresses, c.Socket())
	return err
}

// followEvents shows what happens in a development agent to the person in front of it, one short line per event, until
// ctx is done. Errors of the terminal are ignored: the agent works without one.
func followEvents(ctx context.Context, out io.Writer, feed *snapshot.Feed) {
	for events := feed.Subscribe(0); ; {
		e, err := events.Next(ctx)
		if err != nil {
			return
		}
		if text := consoleText(e); text != "" {
			_, _ = fmt.Fprintln(out, e.Time.Local().Format(time.TimeOnly), text)
		}
	}
}

// consoleText returns what a line says of an event; empty for those that repeat what others say.
func consoleText(e snapshot.Event) string {
	if e.TaskEvent == nil || e.Allocation == nil {
		return ""
	}
	text := e.TaskEvent.Message
	switch e.TaskEvent.Type {
	case hook.EventSetup, hook.EventStarted, hook.EventTerminated, hook.EventKilling, hook.EventKilled,
		hook.EventCompleted:
		return "" // the driver says it with more words, or the user has asked for it
	case allocation.EventDriver:
		text, _, _ = strings.Cut(text, ";") // what was used is in tacho alloc status
	}
	return cli.OneLine(e.Allocation.JobID + "/" + e.Task + "  " + text)
}
