// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/agent/client"
	"github.com/tachograph/tacho/command/cli"
)

func newJobRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run the job of a job file",
		Long: `Register the job of a file and start what it asks for. Allocations of an earlier version go on where their group
means the same, and are stopped where it does not. FILE - is the standard input.

It waits until every allocation has run for a while (--settle) or has ended, and shows what happens meanwhile; the exit
code is 1 where a task failed or had to be started again, with the reason. With --detach it does not wait. With --json
or --template it prints the registration and waits for nothing.`,
		Example: `  tacho job run web.nomad.hcl
  tacho job run --detach --var count=3 web.nomad.hcl`,
		Args: cli.Arguments("FILE"),
	}
	file := jobFileFlags(cmd.Flags())
	detach := cmd.Flags().Bool("detach", false, "do not wait for the tasks to run")
	settle := cmd.Flags().Duration("settle", 2*time.Second, "how long tasks have to run before the job is said to")
	answers := answerFlag(cmd)
	cmd.RunE = withAgent(connectionFlags(cmd), func(cmd *cobra.Command, agent *client.Client, args []string) error {
		if err := answers.check(); err != nil {
			return err
		}
		source, err := file.read(cmd, args[0])
		if err != nil {
			return err
		}
		before, err := agent.Allocations(cmd.Context(), "")
		if err != nil {
			return err
		}
		registered, err := agent.RunJob(cmd.Context(), source)
		if mistakes, ok := mistakesOf(err); ok {
			tellMistakes(cmd.ErrOrStderr(), mistakes)
			return cli.ErrReported
		}
		if err != nil {
			return err
		}
		if answers.asked() {
			return answers.print(cmd.OutOrStdout(), registered.JSON)
		}
		w, err := newWatch(cmd, agent, registered.Value.Tacho.JobID)
		if err != nil {
			return err
		}
		if err := w.tellPlan(&registered.Value, before.Value); err != nil || *detach {
			return err
		}
		return w.untilRunning(cmd.Context(), *settle)
	})
	return cmd
}

// mistakesOf are the lines of an answer that refuses a job file; ok is false for other errors.
func mistakesOf(err error) (lines []string, ok bool) {
	refused, ok := errors.AsType[*client.StatusError](err)
	if !ok || !strings.Contains(refused.Text, "\n") {
		return nil, false
	}
	return strings.Split(refused.Text, "\n"), true
}

func newJobStop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop ID",
		Short: "Stop a job",
		Long: `Stop all allocations of a job, and wait until they have ended. With --purge the job is forgotten then; with --detach
it does not wait.`,
		Example: `  tacho job stop web
  tacho job stop --purge web`,
		Args: cli.Arguments("ID"),
	}
	detach := cmd.Flags().Bool("detach", false, "do not wait for the tasks to end")
	purge := cmd.Flags().Bool("purge", false, "forget the job")
	flags := connectionFlags(cmd)
	cmd.ValidArgsFunction = completeJobs(flags)
	cmd.RunE = withAgent(flags, func(cmd *cobra.Command, agent *client.Client, args []string) error {
		job, err := findJob(cmd, agent, args[0])
		if err != nil {
			return err
		}
		id := job.Value.ID
		w, err := newWatch(cmd, agent, id)
		if err != nil {
			return err
		}
		// A job that is forgotten cannot be looked at any more: it is stopped first.
		if err := agent.StopJob(cmd.Context(), id, *purge && *detach); err != nil {
			return err
		}
		if !*detach {
			if err := w.untilEnded(cmd.Context()); err != nil {
				return err
			}
		}
		if *purge && !*detach {
			if err := agent.StopJob(cmd.Context(), id, true); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "job %s %s\n", cli.Printable(id), stoppedText(*detach, *purge))
		return err
	})
	return cmd
}

func stoppedText(detach, purge bool) string {
	text := "is stopped"
	if detach {
		text = "is being stopped"
	}
	if purge {
		text += " and forgotten"
	}
	return text
}

// watch follows the allocations of a job and tells what happens to their tasks.
type watch struct {
	agent   *client.Client
	out     io.Writer
	palette cli.Palette
	job     client.Job
	// told are the events that were told. They do not come in the order of their times: the driver's take longer.
	told map[string]bool
	// past are the allocations that had ended before.
	past map[string]bool
	// restarts are those of before, by allocation and task.
	restarts map[string]int
	last     client.Answer[[]client.Allocation]
}

// newWatch looks at a job as it is now. What happened before is not told.
func newWatch(cmd *cobra.Command, agent *client.Client, id string) (*watch, error) {
	job, err := agent.Job(cmd.Context(), id)
	if err != nil {
		return nil, err
	}
	out := cmd.OutOrStdout()
	w := &watch{agent: agent, out: out, palette: cli.PaletteFor(cmd, out), job: job.Value, told: map[string]bool{}, past: map[string]bool{}, restarts: map[string]int{}}
	if w.last, err = agent.JobAllocations(cmd.Context(), id, client.Wait{}); err != nil {
		return nil, err
	}
	return w, nil
}

// tellPlan says what was started, what goes on and what is stopped. before are the allocations there were before.
func (w *watch) tellPlan(r *client.Registration, before []client.Allocation) error {
	word := "runs already as the file says"
	if r.Tacho.Changed {
		word = "was registered"
	}
	if _, err := fmt.Fprintf(w.out, "job %s, version %d, %s\n", w.palette.Bold(cli.Printable(r.Tacho.JobID)), r.Tacho.Version, word); err != nil {
		return err
	}
	if r.Warnings != "" {
		if _, err := fmt.Fprintf(w.out, "warning: %s\n", cli.OneLine(r.Warnings)); err != nil {
			return err
		}
	}
	had := map[string]*client.Allocation{}
	for i := range before {
		had[before[i].ID] = &before[i]
	}
	t := cli.Table{Indent: "  "}
	for i := range w.last.Value {
		a := &w.last.Value[i]
		was := had[a.ID]
		if was != nil {
			w.skip(a)
			for name, s := range was.TaskStates {
				w.restarts[a.ID+"/"+name] = s.Restarts
			}
		}
		mark := cli.Cell{Text: "- stop", Paint: w.palette.Red}
		switch {
		case was == nil:
			mark = cli.Cell{Text: "+ start", Paint: w.palette.Green}
		case was.Ended():
			w.past[a.ID] = true
			continue
		case a.DesiredStatus == "run":
			mark = cli.Cell{Text: "= keep", Paint: w.palette.Faint}
		}
		t.Add(mark, cli.Cell{Text: shortID(a.ID)}, cli.Cell{Text: cli.Printable(a.Name)}, cli.Cell{Text: promiseText(a)})
	}
	_, err := io.WriteString(w.out, t.Render(w.palette))
	return err
}

// promiseText lists an allocation's tasks with what they are promised.
func promiseText(a *client.Allocation) string {
	tasks := slices.Sorted(maps.Keys(a.TaskStates))
	for i, name := range tasks {
		r := a.TaskResources[name]
		tasks[i] = fmt.Sprintf("%s (%s, %s, %s)", cli.Printable(name), a.TaskStates[name].Tacho.Driver, cpuText(r), memoryText(r))
	}
	return strings.Join(tasks, "; ")
}

// skip takes what happened to an allocation for told.
func (w *watch) skip(a *client.Allocation) {
	for name, s := range a.TaskStates {
		for _, e := range s.Events {
			w.told[(&toldEvent{e, a.ID, name}).key()] = true
		}
	}
}

// untilRunning waits until each allocation that shall run has run for a while, or has ended.
func (w *watch) untilRunning(ctx context.Context, settle time.Duration) error {
	err := w.follow(ctx, func(a *client.Allocation) bool {
		return !w.concerns(a) || a.Ended() || a.ClientStatus == "running" && w.started(a) || w.trouble() != ""
	})
	if err == nil {
		err = w.settle(ctx, settle)
	}
	if err != nil {
		return err
	}
	if reason := w.trouble(); reason != "" {
		return fmt.Errorf("job %s: %s (tacho alloc status ID has more)", w.job.ID, reason)
	}
	text := fmt.Sprintf("job %s is complete", w.job.ID)
	for i := range w.last.Value {
		if a := &w.last.Value[i]; w.concerns(a) && !a.Ended() {
			text = fmt.Sprintf("job %s runs", w.job.ID)
		}
	}
	_, err = fmt.Fprintln(w.out, w.palette.Green(cli.Printable(text)))
	return err
}

// settle follows the tasks for a time, or until there is nothing more to wait for.
func (w *watch) settle(ctx context.Context, d time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := w.follow(limited, func(a *client.Allocation) bool { return !w.concerns(a) || a.Ended() || w.trouble() != "" })
	if limited.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// concerns reports whether an allocation is one that this job asks for now.
func (w *watch) concerns(a *client.Allocation) bool { return !w.past[a.ID] && a.DesiredStatus == "run" }

// trouble is why the job does not run as it should; empty where it does.
func (w *watch) trouble() string {
	failed, restarted, all, reason := 0, 0, 0, ""
	for i := range w.last.Value {
		a := &w.last.Value[i]
		if !w.concerns(a) {
			continue
		}
		all++
		again := false
		for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
			s := a.TaskStates[name]
			anew := s.Restarts > w.restarts[a.ID+"/"+name]
			if again = again || anew; (anew || s.Failed) && reason == "" {
				reason = fmt.Sprintf("; task %s of allocation %s: %s", name, shortID(a.ID), lastFault(s.Events))
			}
		}
		if a.ClientStatus == "failed" {
			failed++
		} else if again {
			restarted++
		}
	}
	var words []string
	if failed > 0 {
		words = append(words, fmt.Sprintf("%d of %d allocations failed", failed, all))
	}
	if restarted > 0 {
		words = append(words, fmt.Sprintf("%d of %d allocations had to start a task again", restarted, all))
	}
	if len(words) == 0 {
		return ""
	}
	return strings.Join(words, ", ") + reason
}

// lastFault is what the newest event says that tells of an end.
func lastFault(events []client.TaskEvent) string {
	for _, e := range slices.Backward(events) {
		switch e.Type {
		case "Terminated", "Driver Failure", "Task hook failed":
			return cli.OneLine(e.DisplayMessage)
		}
	}
	return "it failed"
}

// started reports whether every task has begun whose turn comes while the main tasks run.
func (w *watch) started(a *client.Allocation) bool {
	for name, s := range a.TaskStates {
		if s.State == "pending" && !w.waitsForTheEnd(a.TaskGroup, name) {
			return false
		}
	}
	return true
}

// waitsForTheEnd reports whether a task runs only when the others have ended.
func (w *watch) waitsForTheEnd(group, task string) bool {
	for _, g := range w.job.TaskGroups {
		for _, t := range g.Tasks {
			if g.Name == group && t.Name == task {
				return t.Lifecycle != nil && t.Lifecycle.Hook == "poststop"
			}
		}
	}
	return false
}

// untilEnded waits until no allocation runs.
func (w *watch) untilEnded(ctx context.Context) error {
	for i := range w.last.Value {
		w.skip(&w.last.Value[i])
	}
	return w.follow(ctx, (*client.Allocation).Ended)
}

// held is how long the agent may hold an answer back; it sends one as soon as anything happens.
const held = 20 * time.Second

// follow tells what happens until done holds for all allocations.
func (w *watch) follow(ctx context.Context, done func(*client.Allocation) bool) error {
	for {
		if err := w.tellEvents(); err != nil {
			return err
		}
		all := true
		for i := range w.last.Value {
			all = all && done(&w.last.Value[i])
		}
		if all {
			return nil
		}
		next, err := w.agent.JobAllocations(ctx, w.job.ID, client.Wait{Index: w.last.Index, For: held})
		if err != nil {
			return err
		}
		w.last = next
	}
}

// toldEvent is an event of a task of an allocation.
type toldEvent struct {
	client.TaskEvent
	allocation, task string
}

func (e *toldEvent) key() string {
	return fmt.Sprint(e.allocation, "/", e.task, "/", e.Time, "/", e.Type)
}

// tellEvents tells the events since the last time, oldest first.
func (w *watch) tellEvents() error {
	var events []toldEvent
	for i := range w.last.Value {
		a := &w.last.Value[i]
		for name, s := range a.TaskStates {
			for _, e := range s.Events {
				if e := (toldEvent{e, a.ID, name}); !w.told[e.key()] {
					events = append(events, e)
				}
			}
		}
		w.skip(a)
	}
	slices.SortFunc(events, func(a, b toldEvent) int { return int(a.Time - b.Time) })
	for _, e := range events {
		if _, err := fmt.Fprintln(w.out, "  "+eventLine(w.palette, e)); err != nil {
			return err
		}
	}
	return nil
}

// eventLine is an event of a task in one line.
func eventLine(p cli.Palette, e toldEvent) string {
	kind := cli.Cell{Text: cli.Printable(e.Type), Paint: eventPaint(p, e.Type)}
	line := fmt.Sprintf("%s  %s  %s  %s", p.Faint(time.Unix(0, e.Time).Local().Format("15:04:05.000")), shortID(e.allocation),
		cli.Printable(e.task), kind.String())
	if e.DisplayMessage != "" {
		line += "  " + cli.OneLine(e.DisplayMessage)
	}
	return line
}

func eventPaint(p cli.Palette, kind string) func(string) string {
	switch kind {
	case "Started", "Recovered", "Completed":
		return p.Green
	case "Driver Failure", "Task hook failed", "Kill Failed", "Not Restarting":
		return p.Red
	case "Terminated", "Restarting", "Restart Signaled", "Killing", "Killed":
		return p.Yellow
	}
	return nil
}
