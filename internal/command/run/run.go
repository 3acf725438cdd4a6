// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package run has the commands that run one command, live: run and attach, stop, executors and prune.
package run

import (
	"cmp"
	_ "embed" // of the help
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/budget"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/repeat"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/internal/version"
	"github.com/tachograph/tacho/procstats"
)

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	return append([]*cobra.Command{newRun(), newPrune()}, platformCommands()...)
}

// Exit codes of tacho run, the same as of env(1), timeout(1) and the shell.
const (
	exitTimedOut      = 124
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalBase    = 128
)

// runOptions are the flags of tacho run.
type runOptions struct {
	flags *pflag.FlagSet
	// request has what the executor gets as it is given.
	request *proto.LaunchRequest
	// firstInterval applies to the first minute; 0 for interval.
	interval, reportInterval, firstInterval time.Duration
	measurements, disk, killSignal          string
	maxRows, recordFD                       int
	samplingBudget                          float64 // in percent of one core
	ioMax, capture, failIf                  []string
	budgets                                 []budget.Condition
	noFiles, detach, quiet                  bool
	outputDir, recordFile                   string
	summaryFile, textFile, runtimeDir       string
	network, cgroup, format, summary, live  *cli.Choice

	repeatOptions
}

// launch is what a run starts, and its name.
type launch struct {
	options *runOptions
	cmd     *cobra.Command
	id      string
	args    []string
	// progress says which run of a series this is; empty for a single one.
	progress  string
	selection procstats.Selection
	stdin     input
	// others are signals that the command gets; all runs of a series share it.
	others chan os.Signal
}

//go:embed help.txt
var help string

func newRun() *cobra.Command {
	o := &runOptions{}
	cmd := cli.Launcher(cli.Described(help, "run"))
	cmd.GroupID, cmd.DisableFlagsInUseLine = cli.GroupMeasure, true
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cli.Usagef("no command given; put it after --: tacho run -- make (see %s --help)", cmd.CommandPath())
		}
		return nil
	}
	o.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		selection, err := o.check()
		if err != nil {
			return err
		}
		commands, err := o.commandsOf(args)
		if err != nil {
			return err
		}
		l := launch{options: o, cmd: cmd, id: o.newID(), selection: selection, others: make(chan os.Signal, 16)}
		if l.stdin, err = o.openInput(len(commands)); err != nil {
			return err
		}
		s := &schedule{
			launch: l, commands: commands, several: o.runs > 1 || len(commands) > 1,
			groups: make([]repeat.Group, len(commands)), interrupts: make(chan os.Signal, 1),
		}
		if s.several {
			return s.runRepeatedly()
		}
		if err = s.run(); len(s.groups[0].Runs) == 0 {
			return err // the command did not run, or was lost
		}
		return o.judge(cmd, s.groups, summary.Markdown, err)
	}
	return cmd
}

// newID returns a name for a run, or for the runs of a series, that none in the output directory has: in another PID
// namespace, for example in a container, a run of the same second may have our PID.
func (o *runOptions) newID() string {
	base := fmt.Sprintf("%s-%d", time.Now().Format("20060102T150405"), os.Getpid())
	exists := func(id string) bool {
		_, err := os.Lstat(filepath.Join(o.outputDir, id))
		return err == nil
	}
	id := base
	for n := 2; exists(id) || exists(seriesName(id, 1)); n++ {
		id = fmt.Sprintf("%s.%d", base, n)
	}
	return id
}

func (o *runOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SetInterspersed(false) // the command's own flags are the command's
	o.flags = flags
	o.request = &proto.LaunchRequest{
		Cgroup: &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_AUTO}, KillGraceNs: int64(5 * time.Second),
	}
	o.addMeasurementFlags(cmd, flags)
	cli.Group(cmd, "Measure")
	o.addLimitFlags(flags)
	cli.Group(cmd, "Limit")
	o.addRecordFlags(cmd, flags)
	flags.StringSliceVar(&o.capture, "capture", nil,
		"also write this `STREAM` of the command to the directory of the run: stdout, stderr or stdout,stderr")
	cli.Group(cmd, "Record")
	o.addRepeatFlags(flags)
	cli.Group(cmd, "Repeat")
	o.addOutputFlags(cmd, flags)
	cli.Group(cmd, "Output")
	q := o.request
	flags.BoolVarP(&o.detach, "detach", "d", false, "leave the command running and return immediately")
	flags.Var(cli.Duration((*time.Duration)(&q.TimeoutNs)), "timeout", "stop the command after this time; 0 for never")
	flags.Var(cli.Duration((*time.Duration)(&q.KillGraceNs)), "kill-grace", "time between the kill signal and SIGKILL")
	flags.StringVar(&o.killSignal, "kill-signal", "TERM", "`SIGNAL` to stop the command")
	flags.BoolVar(&q.WaitForAll, "wait-all", false,
		"wait for processes that outlive the command, instead of stopping them")
	flags.StringVarP(&q.User, "user", "u", "", "run the command as this `USER`, or USER:GROUP, with the user's HOME")
	o.cgroup = cli.AddChoice(cmd, "cgroup", "run the command in a cgroup:", "auto", "none")
	flags.StringVar(&q.Cgroup.Parent, "cgroup-parent", "",
		"parent of the command's cgroup, a `PATH` relative to the cgroup mount")
	flags.StringVar(&o.runtimeDir, "runtime-dir", "", "`DIR` for the socket of the executor, an absolute path")
	_ = cmd.MarkFlagDirname("runtime-dir") // fails only for flags that do not exist
	cli.Group(cmd, "Start and stop")
}

// addRepeatFlags adds the flags for repeated runs.
func (o *runOptions) addRepeatFlags(flags *pflag.FlagSet) {
	o.runs = 1
	flags.Var(cli.Number(&o.runs, 1, math.MaxInt), "runs",
		"run each command `N` times, in turn, and print mean, deviation, outliers and which is faster")
	flags.Var(cli.Number(&o.warmUp, 0, math.MaxInt), "warmup", "run each command `N` times before, without a record")
	flags.StringVar(&o.prepare, "prepare", "", "`COMMAND` to run before each run, unmeasured: words with blanks between")
	flags.StringVar(&o.cleanup, "cleanup", "", "`COMMAND` to run after each run, unmeasured")
	flags.BoolVar(&o.shell, "shell", false, "run --prepare and --cleanup by sh -c")
	flags.StringArrayVar(&o.parameters, "parameter", nil,
		"run the commands with each value in place of NAME in braces: `NAME=VALUE,VALUE`; several flags make all "+
			"combinations")
	flags.StringArrayVar(&o.names, "name", nil, "`NAME` of the command in results; once for each command")
	flags.StringVar(&o.input, "input", "", "`FILE` that the command reads as its stdin, each run from its start")
	flags.StringVar(&o.separator, "separator", "---", "`WORD` between the commands of --runs")
}

// addMeasurementFlags adds the flags for what is measured, and when.
func (o *runOptions) addMeasurementFlags(cmd *cobra.Command, flags *pflag.FlagSet) {
	flags.VarP(cli.Duration(&o.interval), "interval", "i",
		"time between samples; 0 for 250ms in the first minute, then 1s")
	flags.Var(cli.Duration(&o.reportInterval), "report-interval",
		"time between lines of usage.jsonl; 0 for 1m, 4m, 16m, 64m, 256m and the rest")
	flags.StringVar(&o.measurements, "measurements", "default",
		"what to measure, a `LIST`: names, prefixes, all, default; -NAME excludes")
	_ = cmd.RegisterFlagCompletionFunc("measurements", completeSelection) // fails only for flags that do not exist
	o.network = cli.AddChoice(cmd, "network", "count the IP packets of the command:", "auto", "off")
	flags.StringVar(&o.disk, "disk", "", "`DIR` to measure as the disk usage of the command")
	flags.Float64Var(&o.samplingBudget, "sampling-budget", 2,
		"stretch the interval if sampling takes more than this `PERCENT` of one core")
	o.maxRows = 1000
	flags.Var(cli.Number(&o.maxRows, 1, math.MaxInt), "max-rows", "at most `N` process rows per sample")
}

// addRecordFlags adds the flags for what is written to disk.
func (o *runOptions) addRecordFlags(cmd *cobra.Command, flags *pflag.FlagSet) {
	flags.StringVarP(&o.request.Message, "message", "m", "", "`TEXT` for the record")
	flags.Var(labelFlag(&o.request.Labels), "label", "label for the record; may be repeated")
	flags.StringVar(&o.outputDir, "output-dir", record.DefaultRoot, "`DIR` for records, one directory per run")
	_ = cmd.MarkFlagDirname("output-dir") // fails only for flags that do not exist
	flags.BoolVar(&o.noFiles, "no-files", false, "write no record to disk")
}

// addOutputFlags adds the flags for what is printed.
func (o *runOptions) addOutputFlags(cmd *cobra.Command, flags *pflag.FlagSet) {
	o.format = cli.AddChoice(cmd, "format", "format of the final record:", "text", "json")
	flags.StringVar(&o.recordFile, "record-file", "", "write the final record or summary to this `FILE` instead of stderr")
	flags.IntVar(&o.recordFD, "record-fd", 0,
		"write the final record or summary to file descriptor `FD` instead of stderr")
	flags.StringArrayVar(&o.failIf, "fail-if", nil,
		"exit with 123 if this `CONDITION` is true at the end: 'memory_peak > 400M'; may be repeated")
	flags.StringVar(&o.summaryFile, "summary-file", "",
		"append a summary in Markdown to this `FILE`, such as the step summary of a CI")
	flags.StringVar(&o.textFile, "textfile", "",
		"write the final values as Prometheus metrics to this `FILE`.prom, for the textfile collector of a node exporter")
	o.summary = cli.AddChoice(cmd, "summary", "summary at the end:", "short", "full", "none")
	o.live = cli.AddChoice(cmd, "live", "live line while the command runs:", "auto", "never")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing but errors: no live line, no summary")
}

// labelFlag is a flag with one label each time: a value may contain commas and equals signs.
func labelFlag(labels *map[string]string) pflag.Value {
	text := func() string { return summary.LabelsText(*labels) }
	return cli.NewValue("NAME=VALUE", text, func(text string) error {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" {
			return errors.New("must be NAME=VALUE")
		}
		if *labels == nil {
			*labels = map[string]string{}
		}
		(*labels)[name] = value
		return nil
	})
}

// check rejects invalid flags before anything is started or written.
func (o *runOptions) check() (selection procstats.Selection, err error) {
	if o.interval == 0 {
		o.interval, o.firstInterval = time.Second, 250*time.Millisecond
	}
	if o.reportInterval > 0 {
		o.reportInterval = max(o.reportInterval, o.interval)
	}
	if err := cmp.Or(o.checkSampling(), o.checkOutput(), o.checkFiles(), o.checkLimits()); err != nil {
		return selection, err
	}
	if selection, err = procstats.ParseSelection(o.measurements); err != nil {
		return selection, cli.Usagef("--measurements: %w", err)
	}
	if o.network.String() == "off" {
		selection = selection.Minus(procstats.SourceSelection(procstats.SourceSkb))
	}
	if selection.Empty() {
		return selection, cli.Usagef("--measurements %s: selects nothing", o.measurements)
	}
	if o.disk != "" {
		selection = selection.Union(procstats.SourceSelection(procstats.SourceDisk))
	}
	for _, text := range o.failIf {
		condition, err := budget.Parse(text)
		if err != nil {
			return selection, cli.Usagef("--fail-if %q: %w", text, err)
		}
		o.budgets = append(o.budgets, condition)
		if m := condition.Measurement; m.Scope == procstats.TaskScope {
			selection = selection.Union(procstats.Select(m.ID))
		}
	}
	if o.summaryFile != "" {
		err = o.appendSummary("") // fails early if it cannot be written
	}
	return selection, err
}

// checkSampling rejects values of flags, and flags that exclude each other.
func (o *runOptions) checkSampling() error {
	parent, repeats := o.request.Cgroup.Parent, o.given("runs", "warmup", "parameter")
	needEnd := o.given("fail-if", "summary-file", "textfile", "runs", "warmup", "prepare", "cleanup", "parameter")
	switch {
	case o.interval < 10*time.Millisecond:
		return cli.Usagef("--interval %s: must be at least 10ms", o.interval)
	case !(o.samplingBudget >= 0.1 && o.samplingBudget <= 100): // NaN is not either
		return cli.Usagef("--sampling-budget %v: must be 0.1 to 100", o.samplingBudget)
	case parent != "" && o.cgroup.String() == "none":
		return cli.Usagef("--cgroup-parent %s: not possible with --cgroup none", parent)
	case o.detach && len(needEnd) > 0:
		return cli.Usagef("%s: not possible with --detach, which does not wait for the end", cli.AndList(needEnd))
	case !o.shell && strings.ContainsAny(o.prepare+o.cleanup, "|&;<>()$`*?'\"\\"):
		return cli.Usagef("--prepare, --cleanup: no shell interprets quotes and operators; add --shell")
	case len(repeats) > 0 && o.recordFD > 0:
		return cli.Usagef("--record-fd: not possible with %s; use --record-file", cli.AndList(repeats))
	}
	return nil
}

// given returns those of the named flags that do not have their default values.
func (o *runOptions) given(names ...string) (given []string) {
	for _, name := range names {
		if flag := o.flags.Lookup(name); flag != nil && flag.Value.String() != flag.DefValue { // tacho watch has not all
			given = append(given, "--"+name)
		}
	}
	return given
}

// checkFiles rejects files and directories that do not fit.
func (o *runOptions) checkFiles() error {
	for _, stream := range o.capture {
		if stream != "stdout" && stream != "stderr" {
			return cli.Usagef("--capture %s: must be stdout, stderr or both", stream)
		}
	}
	switch {
	case len(o.capture) > 0 && o.noFiles:
		return cli.Usagef("--capture writes to the directory of the run; remove --no-files")
	case o.textFile != "" && filepath.Ext(o.textFile) != ".prom":
		return cli.Usagef("--textfile %s: must end in .prom, or a node exporter does not read it; use %s.prom",
			o.textFile, o.textFile)
	}
	return cmp.Or(checkDir("--disk", o.disk, o.disk), checkDir("--textfile", o.textFile, filepath.Dir(o.textFile)))
}

func (o *runOptions) appendSummary(text string) error {
	file, err := os.OpenFile(o.summaryFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("--summary-file: %w", err)
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// judge holds the records of runs that have ended against the budgets and writes --summary-file. failure, of the
// command, takes precedence.
func (o *runOptions) judge(cmd *cobra.Command, of []repeat.Group, markdown markdownOf, failure error) error {
	var results []budget.Result
	var last *record.Record
	for _, g := range of {
		for i, run := range g.Runs {
			last = run.Record
			for _, condition := range o.budgets {
				result := condition.Check(last)
				if name := fmt.Sprintf("run %d", i+1); len(of) > 1 {
					result.Reason = fmt.Sprintf("%s of %s: %s", name, cli.Printable(g.Name), result.Reason)
				} else if len(g.Runs) > 1 {
					result.Reason = name + ": " + result.Reason
				}
				results = append(results, result)
			}
		}
	}
	report := func(err error) { cli.PrintError(cmd.ErrOrStderr(), err) }
	if o.summaryFile != "" {
		report(o.appendSummary(markdown(last, results)))
	}
	if o.textFile != "" {
		report(writeTextFile(o.textFile, last))
	}
	return cmp.Or(failure, budget.Report(results, report))
}

// markdownOf returns the text for --summary-file.
type markdownOf = func(*record.Record, []budget.Result) string

// checkDir rejects the value of a flag if a directory does not exist. One that is not accessible may be so for the user
// of the command.
func checkDir(flag, value, dir string) error {
	if value == "" {
		return nil
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cli.Usagef("%s %s: no such directory", flag, value)
	case err == nil && !info.IsDir():
		return cli.Usagef("%s %s: not a directory", flag, value)
	}
	return nil
}

// findCommand finds a command like the shell, and fails with the exit codes of the shell. A path that leads to no
// command is left to the start, which says why.
func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case name == "":
		return "", cli.ExitWith(exitNotFound, errors.New("empty command name"))
	case err == nil, errors.Is(err, exec.ErrDot):
		return filepath.Abs(path)
	case filepath.IsAbs(name):
		return name, nil
	case strings.ContainsAny(name, "/"+string(filepath.Separator)):
		dir, err := workingDir()
		return dir + string(filepath.Separator) + name, err
	case errors.Is(err, fs.ErrPermission):
		return "", cli.ExitWith(exitNotExecutable, fmt.Errorf("%s: not executable", name))
	}
	hint := ""
	if words := strings.Fields(name); len(words) > 1 {
		if _, err := exec.LookPath(words[0]); err == nil {
			hint = "; did you mean tacho run -- " + strings.Join(words, " ") + "?"
		}
	}
	return "", cli.ExitWith(exitNotFound, fmt.Errorf("%s: command not found in PATH%s", name, hint))
}

// newRecord returns the record of a run that this process writes itself.
func (l *launch) newRecord() *record.Record {
	host := record.Host{OS: runtime.GOOS, CPUs: runtime.NumCPU()}
	host.Name, _ = os.Hostname() // what cannot be found out
	dir, _ := workingDir()       // is not in the record
	r := &record.Record{
		Version: record.Version{SchemaVersion: record.SchemaVersion, TachoVersion: version.String()},
		State:   record.Running, ID: l.id, Command: l.args,
		Origin:   record.Origin{Dir: dir, User: l.options.request.User, Message: l.options.request.Message},
		Headline: map[string]record.HeadlineValue{}, Measurements: map[string]any{}, Absent: map[string]string{},
		Surroundings: record.Surroundings{Selection: l.selection.Names()},
		About:        record.About{Labels: l.options.request.Labels, Host: host},
	}
	r.EscapeNames()
	return r
}

// refused returns the record of a run whose command could not be started.
func (l *launch) refused(reason string) *record.Record {
	r := l.newRecord()
	r.State, r.StartedAt = record.Exited, time.Now()
	r.EndedAt = r.StartedAt
	nothing := record.OOMCounters{Read: true}
	r.Diagnosis = record.Diagnose(record.Evidence{
		Cause: record.StartFailed, Reason: reason, EndedAt: r.EndedAt, OOMBefore: nothing, OOMAfter: nothing,
	})
	return r
}

// named lists the measurements that are requested by their full names, which must be available, and the groups, of
// which at least one must be.
func (o *runOptions) named() (names []string) {
	for name := range strings.SplitSeq(o.measurements, ",") {
		if name = strings.TrimSpace(name); name != "all" && name != "default" && !strings.HasPrefix(name, "-") {
			names = append(names, name)
		}
	}
	return names
}

// workingDir returns the working directory; of one that was removed what Linux calls it.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if errors.Is(err, fs.ErrNotExist) {
		return os.Readlink("/proc/self/cwd")
	}
	return dir, err
}

// withoutFiles reports whether a run whose directory cannot be created does without one, and says so: nothing that was
// asked for is written there.
func (l *launch) withoutFiles(err error) bool {
	if len(l.options.given("output-dir", "capture", "detach")) > 0 {
		return false
	}
	cli.PrintError(l.cmd.ErrOrStderr(), fmt.Errorf("no record is written to disk: %w", err))
	l.options.noFiles = true
	return true
}

// completeSelection completes the last word of --measurements, a comma-separated list.
func completeSelection(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := ""
	if comma := strings.LastIndexByte(typed, ','); comma >= 0 {
		before = typed[:comma+1]
	}
	completions := cli.MeasurementCompletions(before)
	for _, word := range []string{"all", "default"} {
		completions = append(completions, cobra.CompletionWithDesc(before+word, fmt.Sprintf("the selection %q", word)))
	}
	return completions, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
