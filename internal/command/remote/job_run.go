// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

func newJobRun() *cobra.Command {
	cmd := cli.Described(help, "job run")
	file := jobFileFlags(cmd.Flags())
	detach := cmd.Flags().Bool("detach", false, "do not wait until the tasks are running")
	settle := 2 * time.Second
	cmd.Flags().Var(cli.Duration(&settle), "settle", "time for which tasks must be running")
	output := addOutputFlags(cmd)
	return withAgent(cmd, nil, func(c *call) error {
		source, err := file.read(cmd, c.args[0])
		if err != nil {
			return err
		}
		before, err := c.Allocations(c.ctx, "")
		if err != nil {
			return err
		}
		registered, err := c.RunJob(c.ctx, source)
		if mistakes, ok := mistakesOf(err); ok {
			printMistakes(cmd.ErrOrStderr(), mistakes)
			return cli.ErrReported
		}
		if err != nil || output.set() {
			return show(c, output, registered, err, nil)
		}
		w, err := newWatch(c, registered.Value.Tacho.JobID)
		if err != nil {
			return err
		}
		if err := w.printPlan(&registered.Value, before.Value); err != nil || *detach {
			return err
		}
		return w.untilRunning(settle)
	})
}

// mistakesOf returns the lines of an error that rejects a job file; ok is false for other errors.
func mistakesOf(err error) (lines []string, ok bool) {
	refused, ok := errors.AsType[*client.StatusError](err)
	if !ok || !strings.Contains(refused.Text, "\n") {
		return nil, false
	}
	return strings.Split(refused.Text, "\n"), true
}

func newJobStop() *cobra.Command {
	cmd := cli.Described(help, "job stop")
	detach := cmd.Flags().Bool("detach", false, "do not wait for the tasks to end")
	purge := cmd.Flags().Bool("purge", false, "remove the job from the agent's state")
	return withAgent(cmd, completeJobs, func(c *call) error {
		job, err := findJob(c.ctx, c.Client, c.args[0])
		if err != nil {
			return err
		}
		id := job.Value.ID
		w, err := newWatch(c, id)
		if err != nil {
			return err
		}
		// A purged job cannot be queried any more: it is stopped first.
		err = c.StopJob(c.ctx, id, *purge && *detach)
		if err == nil && !*detach {
			err = w.untilEnded()
		}
		if err == nil && *purge && !*detach {
			err = c.StopJob(c.ctx, id, true)
		}
		if err == nil {
			_, err = fmt.Fprintf(c.out, "%s %s\n", stoppedText(*detach, *purge), cli.Printable(id))
		}
		return err
	})
}

func stoppedText(detach, purge bool) string {
	switch {
	case detach && purge:
		return "purging"
	case detach:
		return "stopping"
	case purge:
		return "purged"
	}
	return "stopped"
}

// watch follows the allocations of a job and prints the events of their tasks.
type watch struct {
	*call

	job client.Job
	// printed has the printed events. They do not arrive in the order of their times: the driver's take longer.
	printed map[string]bool
	// past has the allocations that had ended before.
	past map[string]bool
	// restarts has the numbers of restarts before, by allocation and task.
	restarts map[string]int
	last     client.Answer[[]apijson.Allocation]
}

// newWatch starts at the current state of a job; it skips earlier events.
func newWatch(c *call, id string) (*watch, error) {
	job, err := c.Job(c.ctx, id)
	if err != nil {
		return nil, err
	}
	w := &watch{
		call: c, job: job.Value, printed: map[string]bool{}, past: map[string]bool{}, restarts: map[string]int{},
	}
	w.last, err = c.JobAllocations(c.ctx, id, client.Wait{})
	return w, err
}

// printPlan prints which allocations were started, continue and are stopped. before are the earlier allocations.
func (w *watch) printPlan(r *client.Registration, before []apijson.Allocation) error {
	word := "unchanged"
	if r.Tacho.Changed {
		word = "registered"
	}
	if _, err := fmt.Fprintf(w.out, "%s %s (version %d)\n", word, w.palette.Bold(cli.Printable(r.Tacho.JobID)),
		r.Tacho.Version); err != nil {
		return err
	}
	printNotes(w.out, r.Warnings)
	had := map[string]*apijson.Allocation{}
	for _, a := range before {
		had[a.ID] = &a
	}
	t := cli.Table{Indent: "  "}
	for i := range w.last.Value {
		a := &w.last.Value[i]
		was := had[a.ID]
		if was != nil {
			w.unprinted(a)
			for name, s := range was.TaskStates {
				w.restarts[a.ID+"/"+name] = s.Restarts
			}
		}
		mark := cli.Painted("- stop", w.palette.Red)
		switch {
		case was == nil:
			mark = cli.Painted("+ start", w.palette.Green)
		case was.Ended():
			w.past[a.ID] = true
			continue
		case a.DesiredStatus == "run":
			mark = cli.Painted("= keep", w.palette.Faint)
		}
		t.Add(mark, shortID(a.ID), a.Name, requestText(a))
	}
	_, err := io.WriteString(w.out, t.Render(w.palette))
	return err
}

// requestText lists the tasks of an allocation with the resources they request.
func requestText(a *apijson.Allocation) string {
	tasks := slices.Sorted(maps.Keys(a.TaskStates))
	for i, name := range tasks {
		r := a.TaskResources[name]
		tasks[i] = fmt.Sprintf("%s (%s, %s, %s)", name, a.TaskStates[name].Tacho.Driver, cpuText(r), memoryText(r))
	}
	return strings.Join(tasks, "; ")
}

// unprinted returns the events of an allocation that it has not returned before.
func (w *watch) unprinted(a *apijson.Allocation) (events []taskEvent) {
	for name, s := range a.TaskStates {
		for _, e := range s.Events {
			key := fmt.Sprint(a.ID, "/", name, "/", e.Time, "/", e.Type, "/", e.DisplayMessage)
			if !w.printed[key] {
				w.printed[key] = true
				events = append(events, taskEvent{e, a.ID, name})
			}
		}
	}
	return events
}

// untilRunning waits until each desired allocation has been running for a time, or has ended.
func (w *watch) untilRunning(settle time.Duration) error {
	err := w.follow(w.ctx, func(a *apijson.Allocation) bool {
		return !w.concerns(a) || a.Ended() || a.ClientStatus == "running" && w.started(a) || w.isTroubled()
	})
	if err == nil {
		err = w.settle(settle)
	}
	if err != nil {
		return err
	}
	if reason, id := w.trouble(); reason != "" {
		return fmt.Errorf("job %s: %s (see tacho alloc status %s)", w.job.ID, reason, shortID(id))
	}
	if len(w.job.Unplaced) > 0 {
		return fmt.Errorf("job %s: %s", w.job.ID, strings.Join(placementFailures(&w.job), "; "))
	}
	text := fmt.Sprintf("%s is complete", w.job.ID)
	for i := range w.last.Value {
		if a := &w.last.Value[i]; w.concerns(a) && !a.Ended() {
			text = fmt.Sprintf("%s is running", w.job.ID)
		}
	}
	_, err = fmt.Fprintln(w.out, w.palette.Green(cli.Printable(text)))
	return err
}

// settle follows the tasks for a time, or until all have ended.
func (w *watch) settle(d time.Duration) error {
	limited, cancel := context.WithTimeout(w.ctx, d)
	defer cancel()
	err := w.follow(limited, func(a *apijson.Allocation) bool { return !w.concerns(a) || a.Ended() || w.isTroubled() })
	if limited.Err() != nil && w.ctx.Err() == nil {
		return nil
	}
	return err
}

// concerns reports whether an allocation is a desired one of this job.
func (w *watch) concerns(a *apijson.Allocation) bool {
	return !w.past[a.ID] && a.DesiredStatus == "run"
}

// isTroubled reports whether the job is not healthy.
func (w *watch) isTroubled() bool {
	reason, _ := w.trouble()
	return reason != ""
}

// trouble returns why the job is not healthy, and the first allocation that is not; empty if it is.
func (w *watch) trouble() (text, id string) {
	failed, restarted, all, reason := 0, 0, 0, ""
	for _, a := range w.last.Value {
		if !w.concerns(&a) {
			continue
		}
		all++
		again := false
		for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
			s := a.TaskStates[name]
			anew := s.Restarts > w.restarts[a.ID+"/"+name]
			if again = again || anew; (anew || s.Failed) && reason == "" {
				id, reason = a.ID, fmt.Sprintf("; task %s of allocation %s: %s", name, shortID(a.ID), lastFailure(s.Events))
			}
		}
		switch {
		case a.ClientStatus == "failed":
			failed++
		case again:
			restarted++
		default:
			continue
		}
		id = cmp.Or(id, a.ID)
	}
	var words []string
	if failed > 0 {
		words = append(words, fmt.Sprintf("%d of %s failed", failed, procstats.Counted(all, "allocation", "allocations")))
	}
	if restarted > 0 {
		words = append(words, fmt.Sprintf("%d of %s restarted a task", restarted,
			procstats.Counted(all, "allocation", "allocations")))
	}
	if len(words) == 0 {
		return "", ""
	}
	return strings.Join(words, ", ") + reason, id
}

// lastFailure returns the message of the newest event of a failure.
func lastFailure(events []apijson.TaskEvent) string {
	for _, e := range slices.Backward(events) {
		switch e.Type {
		case "Terminated", "Driver Failure", "Task hook failed":
			return cli.OneLine(e.DisplayMessage)
		}
	}
	return "failed"
}

// started reports whether every task has started, except poststop tasks.
func (w *watch) started(a *apijson.Allocation) bool {
	for name, s := range a.TaskStates {
		if s.State == "pending" && !w.isPoststop(a.TaskGroup, name) {
			return false
		}
	}
	return true
}

// isPoststop reports whether a task starts after the others have ended.
func (w *watch) isPoststop(group, task string) bool {
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
func (w *watch) untilEnded() error {
	for i := range w.last.Value {
		w.unprinted(&w.last.Value[i])
	}
	return w.follow(w.ctx, (*apijson.Allocation).Ended)
}

// maxWait is how long the agent may delay a response without a change.
const maxWait = 20 * time.Second

// follow prints events until done is true for all allocations.
func (w *watch) follow(ctx context.Context, done func(*apijson.Allocation) bool) error {
	for {
		if err := w.printEvents(); err != nil {
			return err
		}
		all := true
		for i := range w.last.Value {
			all = all && done(&w.last.Value[i])
		}
		if all {
			return nil
		}
		next, err := w.JobAllocations(ctx, w.job.ID, client.Wait{Index: w.last.Index, For: maxWait})
		if err != nil {
			return err
		}
		w.last = next
	}
}

// taskEvent is an event of a task.
type taskEvent struct {
	apijson.TaskEvent
	allocation, task string
}

// printEvents prints the new events, oldest first.
func (w *watch) printEvents() error {
	var events []taskEvent
	for i := range w.last.Value {
		events = append(events, w.unprinted(&w.last.Value[i])...)
	}
	slices.SortFunc(events, func(a, b taskEvent) int { return int(a.Time - b.Time) })
	for _, e := range events {
		if _, err := fmt.Fprintln(w.out, "  "+eventLine(w.palette, e)); err != nil {
			return err
		}
	}
	return nil
}

// eventLine returns an event in one line.
func eventLine(p cli.Palette, e taskEvent) string {
	line := fmt.Sprintf("%s  %s  %s  %s", p.Faint(time.Unix(0, e.Time).Local().Format("15:04:05.000")),
		shortID(e.allocation), cli.Printable(e.task), cli.Painted(e.Type, eventPaint(p, e.Type)))
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
