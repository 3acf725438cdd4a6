// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/budget"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/repeat"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/procstats"
)

// schedule runs commands several times in turn, so that what changes on the machine meanwhile affects all alike.
type schedule struct {
	launch

	commands []command
	// several says that there is more than one run, without those before them, the warm-up.
	several bool
	// groups are the runs that completed, by command.
	groups     []repeat.Group
	interrupts chan os.Signal
}

// run runs until a run fails or a signal ends this process.
func (s *schedule) run() error {
	// A signal that comes at the end of a run would be lost as the next one begins.
	for _, number := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(number) {
			signal.Notify(s.interrupts, number)
		}
	}
	defer signal.Stop(s.interrupts)
	warmUps, all := s.options.warmUp*len(s.commands), (s.options.warmUp+s.options.runs)*len(s.commands)
	for n := range all {
		l, c := s.launch, &s.commands[n%len(s.commands)]
		which := fmt.Sprintf("run %d of %d", (n-warmUps)/len(s.commands)+1, s.options.runs)
		if n < warmUps {
			which = fmt.Sprintf("warm-up run %d of %d", n/len(s.commands)+1, s.options.warmUp)
		}
		if len(s.commands) > 1 {
			which += " of " + cli.Printable(c.name)
		}
		if n < warmUps || s.several {
			l.id, l.options, l.progress = seriesName(s.id, n-warmUps+1), s.quietly(), which
		}
		if n < warmUps {
			l.id = fmt.Sprintf("%s-warmup%d", s.id, n+1)
			l.options.noFiles, l.options.capture = true, nil
		}
		final, err := s.once(l, c, which)
		if final != nil && n >= warmUps && (!s.several || final.End().Outcome.Success()) {
			g := &s.groups[n%len(s.commands)]
			g.Name = cmp.Or(c.name, g.Name, l.id)
			g.Runs = append(g.Runs, record.Entry{Name: l.id, Record: final})
		}
		select {
		case number := <-s.interrupts:
			if signalled, _ := number.(syscall.Signal); n < all-1 || final == nil {
				err = fmt.Errorf("stopped in %s by signal: %s; completed runs are kept", which, number)
				return cli.ExitWith(exitSignalBase+int(signalled), err)
			}
		default:
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// quietly returns options to print nothing but errors and the live line.
func (s *schedule) quietly() *runOptions {
	once := *s.options
	once.recordFile, once.recordFD = "", 0
	once.format, once.summary = cli.NewChoice("text"), cli.NewChoice("none")
	return &once
}

// once runs a command with what is to run before and after it.
func (s *schedule) once(l launch, c *command, which string) (*record.Record, error) {
	if err := cmp.Or(s.stdin.rewind(), s.beside("--prepare before "+which, c.prepare)); err != nil {
		return nil, err
	}
	if len(s.interrupts) > 0 {
		return nil, nil // run says so
	}
	options, given := *l.options, l.options
	if s.several {
		options.request = protobuf.CloneOf(options.request)
	}
	labels := map[string]string{}
	if c.name != "" {
		labels[repeat.NameLabel] = c.name
	}
	if s.several {
		labels[repeat.Label] = seriesName(s.id, 1)
	}
	maps.Copy(labels, options.request.Labels) // those that were given take precedence
	options.request.Labels = labels
	l.options, l.args = &options, c.args
	final, err := run(l)
	if options.noFiles != given.noFiles {
		s.options.noFiles = true // as this run found
	}
	failure := s.beside("--cleanup after "+which, c.cleanup)
	if err == nil {
		return final, failure
	}
	if l.progress != "" && final != nil {
		failure = errors.Join(fmt.Errorf("%s: %s", which, final.End().Summary), failure)
	}
	cli.PrintError(s.cmd.ErrOrStderr(), failure)
	return final, err
}

// beside runs what is to run before or after a run, unmeasured. What it prints goes to stderr.
func (l *launch) beside(when, text string) error {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil
	}
	if l.options.shell {
		words = []string{"sh", "-c", text}
	}
	cmd := exec.CommandContext(l.cmd.Context(), words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = l.cmd.ErrOrStderr(), l.cmd.ErrOrStderr()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %s: %w", when, text, err)
	}
	return nil
}

// seriesName is the name of one run of a series; the first is 1.
func seriesName(id string, n int) string { return fmt.Sprintf("%s-%03d", id, n) }

// runRepeatedly runs commands several times and prints what the runs used on average. It ends with the first run that
// fails, and prints what the runs before it used.
func (s *schedule) runRepeatedly() (err error) {
	o, out := s.options, s.cmd.ErrOrStderr()
	if o.recordFile != "" {
		file, err := os.OpenFile(o.recordFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return fmt.Errorf("--record-file: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	stopped := s.run()
	groups := slices.DeleteFunc(s.groups, func(g repeat.Group) bool { return len(g.Runs) == 0 })
	if len(groups) == 0 {
		return stopped
	}
	rows, first := repeat.Compare(groups...), groups[0].Runs[0].Record
	what := procstats.Counted(o.runs, "run", "runs")
	if done := len(groups[0].Runs); done < o.runs {
		what = fmt.Sprintf("%d of %s", done, what)
	}
	if n := len(groups); n > 1 {
		what += fmt.Sprintf(" of each of %d commands", n)
	} else {
		what += " of " + cli.CommandLine(first.Command)
	}
	if err := s.write(out, what, rows, first.ID); err != nil {
		return err
	}
	markdown := func(_ *record.Record, results []budget.Result) string {
		return "### " + cli.Markdown(what) + "\n\n" + repeat.Markdown(rows) + summary.Budgets(results)
	}
	return o.judge(s.cmd, groups, markdown, stopped)
}

// write writes rows as --format says.
func (s *schedule) write(out io.Writer, what string, rows []repeat.Row, first string) error {
	o := s.options
	switch {
	case o.format.String() == "json":
		return cli.PrintJSON(out, rows)
	case o.recordFile == "" && o.silent():
		return nil
	}
	_, err := fmt.Fprintf(out, "tacho: %s\n", what)
	err = errors.Join(err, repeat.Write(out, cli.PaletteFor(s.cmd, out), "table", rows))
	if err == nil && !o.noFiles {
		_, err = fmt.Fprintf(out, "  tacho compare %s\n", rundir.Word(o.outputDir, first))
	}
	return err
}

// repeatOptions are the flags for repeated runs.
type repeatOptions struct {
	runs, warmUp                       int
	input, separator, prepare, cleanup string
	names, parameters                  []string
	shell                              bool
}

// command is one of the commands of a call, and what runs before and after each of its runs.
type command struct {
	name, prepare, cleanup string
	args                   []string
}

// commandsOf returns the commands in the arguments, one for each combination of the parameters that are in it. If there
// are several, they have names.
func (o *runOptions) commandsOf(args []string) ([]command, error) {
	all := []command{{prepare: o.prepare, cleanup: o.cleanup}}
	for _, arg := range args {
		c := &all[len(all)-1]
		if arg == o.separator && o.flags.Changed("runs") {
			all = append(all, command{prepare: o.prepare, cleanup: o.cleanup})
		} else if c.args = append(c.args, arg); len(all) <= len(o.names) {
			c.name = o.names[len(all)-1]
		}
	}
	if slices.ContainsFunc(all, func(c command) bool { return len(c.args) == 0 }) {
		return nil, cli.Usagef("no command before or after %s; --separator chooses another word", o.separator)
	}
	if len(o.names) > len(all) {
		commands := procstats.Counted(len(all), "command", "commands")
		return nil, cli.Usagef("--name: given %s for %s", procstats.Counted(len(o.names), "time", "times"), commands)
	}
	for _, text := range o.parameters {
		name, list, _ := strings.Cut(text, "=")
		values, err := csv.NewReader(strings.NewReader(list)).Read()
		if err != nil || name == "" {
			return nil, cli.Usagef("--parameter %s: must be NAME=VALUE,VALUE; a value with a comma is in double quotes", text)
		}
		var next []command
		found := false
		for _, c := range all {
			variants, has := c.variants(name, values)
			next, found = append(next, variants...), found || has
		}
		if all = next; !found {
			return nil, cli.Usagef("--parameter %s: {%s} is in no command", text, name)
		}
	}
	const longest = 80
	seen := map[string]int{}
	for i := range all {
		c := &all[i]
		if c.name == "" && len(all) > 1 {
			c.name = cli.Cut(cli.CommandLine(c.args), longest)
		}
		if seen[c.name]++; seen[c.name] > 1 {
			c.name = fmt.Sprintf("%s #%d", c.name, seen[c.name])
		}
	}
	return all, nil
}

// variants returns the command with each value of a parameter; itself if it has not the parameter.
func (c command) variants(name string, values []string) (all []command, has bool) {
	for _, value := range values {
		replace := strings.NewReplacer("{"+name+"}", value).Replace
		one := command{name: replace(c.name), prepare: replace(c.prepare), cleanup: replace(c.cleanup)}
		for _, arg := range c.args {
			one.args = append(one.args, replace(arg))
		}
		if slices.Equal(one.args, c.args) && one.prepare == c.prepare && one.cleanup == c.cleanup {
			return []command{c}, false
		}
		if c.name != "" && one.name == c.name {
			one.name += " " + name + "=" + value
		}
		all = append(all, one)
	}
	return all, true
}

// input is the stdin of a command.
type input struct {
	file *os.File
	// start is where each run of a series begins to read; negative for what has no place, such as a device.
	start int64
}

// openInput opens the file of --input, or returns our stdin. Each run of a series must read the same: what can be read
// only once is rejected. Of a terminal, a series would wait for keys at each run: its commands read nothing instead.
func (o *runOptions) openInput(commands int) (in input, err error) {
	in = input{file: os.Stdin, start: -1}
	info, err := os.Stdin.Stat()
	if o.input != "" {
		if o.input, err = cli.Absolute(o.input); err != nil { // the executor's working directory is another
			return in, fmt.Errorf("--input: %w", err)
		}
		if info, err = os.Stat(o.input); err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a directory", o.input)
		}
	}
	if err != nil {
		return in, cli.Usagef("--input: %w", err)
	}
	series := o.runs > 1 || o.warmUp > 0 || commands > 1
	terminal := o.input == "" && term.IsTerminal(int(os.Stdin.Fd()))
	switch mode := info.Mode(); {
	case series && terminal:
		in.file, err = os.Open(os.DevNull)
	case series && !mode.IsRegular() && mode&fs.ModeCharDevice == 0:
		return in, cli.Usagef("%s: stdin can be read only once, by the first run; "+
			"use --input FILE, or </dev/null if the command reads nothing", cli.AndList(o.given("runs", "warmup", "parameter")))
	case o.input != "" && !o.detach:
		in.file, err = os.Open(o.input)
	}
	if err == nil && series && info.Mode().IsRegular() {
		// What was read before, by the shell's read for example, is not the command's.
		in.start, err = in.file.Seek(0, io.SeekCurrent)
	}
	if err != nil {
		return in, fmt.Errorf("stdin: %w", err)
	}
	return in, nil
}

// rewind lets the next run read from the start.
func (in input) rewind() error {
	if in.start < 0 {
		return nil
	}
	if _, err := in.file.Seek(in.start, io.SeekStart); err != nil {
		return fmt.Errorf("rewind stdin: %w", err)
	}
	return nil
}
