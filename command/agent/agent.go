// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/agent"
	"github.com/tachograph/tacho/agent/client"
	"github.com/tachograph/tacho/agent/collector"
	"github.com/tachograph/tacho/agent/config"
	"github.com/tachograph/tacho/agent/job"
	"github.com/tachograph/tacho/command/cli"
)

// agentOptions are the flags of tacho agent.
type agentOptions struct {
	config  []string
	dev     bool
	dataDir string
	jobs    []string
}

func Command() *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run jobs on this machine, keep what they use, and serve it over HTTP",
		Long: `Run the tasks of job files on this one machine, with the HTTP API, the metrics and the web page.

Without --config there is nothing but defaults: state in /var/lib/tacho, HTTP on 127.0.0.1:4656. Over TCP, without a
token, numbers are served; everything else is on the unix socket in the data folder.

SIGHUP reads the configuration again: it turns publishing on and off for running tasks. SIGINT and SIGTERM end the
agent; tasks run on and are taken up by the next one. With --dev nothing is kept: tasks are stopped, and the data
folder is a temporary one.`,
		Example: `  tacho agent --dev
  tacho agent --dev --job examples/hello.nomad.hcl
  tacho agent --config /etc/tacho.d`,
		Args:    cli.Arguments(),
		GroupID: cli.GroupHost,
	}
	cmd.Flags().StringArrayVar(&o.config, "config", nil, "a configuration file, or a folder of *.hcl files; may be repeated")
	cmd.Flags().BoolVar(&o.dev, "dev", false, "keep nothing: publish everything, and stop all tasks at the end")
	cmd.Flags().StringVar(&o.dataDir, "data-dir", "", "keep state and allocations in this folder")
	cmd.Flags().StringArrayVar(&o.jobs, "job", nil, "run this job file once the agent is ready; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return runAgent(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	cmd.AddCommand(newCollectLogs())
	return cmd
}

// newCollectLogs is the process that the agent starts beside a task whose driver leaves the log files to its host.
func newCollectLogs() *cobra.Command {
	return &cobra.Command{
		Use:                collector.Command[1],
		Short:              "Write a task's output to rotated files; started by the agent",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := collector.Main(args); code != 0 {
				return cli.ExitWith(code, nil) // it has said why
			}
			return nil
		},
	}
}

// LongDashes lets tacho agent be called as Nomad's agent is: with -config and -dev.
func LongDashes(args []string) []string {
	if len(args) == 0 || args[0] != "agent" {
		return args
	}
	out := make([]string, 0, len(args))
	for _, arg := range args {
		switch {
		case arg == "-dev", arg == "-config", len(arg) > 8 && arg[:8] == "-config=":
			arg = "-" + arg
		}
		out = append(out, arg)
	}
	return out
}

// load reads the configuration that the flags ask for.
func (o agentOptions) load() (config.Config, error) {
	c, err := config.Load(o.config...)
	if err != nil {
		return c, err
	}
	if o.dev {
		c.Dev = true
		c.Telemetry.PublishAllocationMetrics, c.Telemetry.PublishNodeMetrics, c.Telemetry.PrometheusMetrics = true, true, true
	}
	if o.dataDir != "" {
		if c.DataDir, err = filepath.Abs(o.dataDir); err != nil {
			return c, err
		}
	}
	return c, c.Check()
}

// runAgent runs the agent until a signal ends it.
func runAgent(ctx context.Context, o agentOptions, stdout, stderr io.Writer) (err error) {
	c, err := o.load()
	if err != nil {
		return err
	}
	if o.dev && o.dataDir == "" {
		if c.DataDir, err = client.NewDevDataDir(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.DataDir)) }()
	}
	log := hclog.New(&hclog.LoggerOptions{Name: "tacho", Level: hclog.LevelFromString(c.LogLevel), Output: stderr})
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := agent.New(c, log)
	// The agent outlives its listeners: what it does for the last request is not cut short.
	agentCtx, endAgent := context.WithCancel(context.WithoutCancel(ctx))
	defer endAgent()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(agentCtx) }()
	select {
	case err := <-ended:
		return err
	case <-a.Ready():
		err = serveAgent(ctx, a, c, log, o, stdout, ended)
	case <-ctx.Done(): // it is still taking up what an earlier one left
	}
	endAgent()
	select {
	case runErr := <-ended:
		err = errors.Join(err, runErr)
	case <-time.After(time.Minute):
		err = errors.Join(err, errors.New("the agent does not end"))
	}
	return err
}

// serveAgent serves a ready agent until ctx is done or the agent ends.
func serveAgent(ctx context.Context, a *agent.Agent, c config.Config, log hclog.Logger, o agentOptions, stdout io.Writer, ended chan error) error {
	services, err := openServices(a, c, log)
	if err != nil {
		return err
	}
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer work.Wait()
	defer cancel()
	work.Go(func() { services.run(ctx) })
	hangups := make(chan os.Signal, 1)
	notifyHangup(hangups)
	defer signal.Stop(hangups)
	work.Go(func() { watchdog(ctx, a, log) })
	if err := printWhere(stdout, c); err != nil {
		log.Debug("print", "error", err)
	}
	for _, file := range o.jobs {
		if err := runFile(ctx, a, file); err != nil {
			return err
		}
	}
	tellManager(log, managerReady)
	defer tellManager(log, managerStopping)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			ended <- err // for whoever waits for the end
			return err
		case <-hangups:
			tellManager(log, managerReloading)
			reload(a, services.keys, o, log)
			tellManager(log, managerReady)
		}
	}
}

// reload reads the configuration again. A mistake in it changes nothing.
func reload(a *agent.Agent, keys *keyring, o agentOptions, log hclog.Logger) {
	c, err := o.load()
	if err != nil {
		log.Error("the configuration is not reloaded", "error", err)
		return
	}
	if o.dev && o.dataDir == "" {
		c.DataDir = a.Self().DataDir
	}
	now, err := readSecrets(c)
	if err != nil {
		log.Error("the configuration is not reloaded", "error", err)
		return
	}
	ignored, err := a.Reload(c)
	if err != nil {
		log.Error("the configuration is not reloaded", "error", err)
		return
	}
	keys.replace(now)
	for _, name := range ignored {
		log.Warn("this takes effect when the agent is started again", "changed", name)
	}
	log.Info("the configuration was reloaded")
}

// runFile runs the job of a file.
func runFile(ctx context.Context, a *agent.Agent, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	_, _, err = a.RunJob(ctx, job.Source{Filename: path, Text: string(text)})
	return err
}

// printWhere says where to look.
func printWhere(w io.Writer, c config.Config) error {
	where := ""
	if c.Ports.HTTP != -1 {
		scheme := "http"
		if c.TLS.CertFile != "" {
			scheme = "https"
		}
		base := fmt.Sprintf("%s://%s", scheme, tcpAddress(c))
		where = fmt.Sprintf("page     %s/\nAPI      %s/v1/allocations\n", base, base)
		if c.Telemetry.PrometheusMetrics {
			where += fmt.Sprintf("metrics  %s/v1/metrics?format=prometheus\n", base)
		} else {
			where += "metrics  telemetry { prometheus_metrics } is off\n"
		}
	}
	_, err := fmt.Fprintf(w, "%ssocket   %s\n", where, c.Socket())
	return err
}
