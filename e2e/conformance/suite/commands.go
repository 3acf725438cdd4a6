// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tachograph/tacho/executor/record"
)

func commandsCases() []Case {
	return []Case{
		{"stats count what has ended, by command", commandsCounted},
		{"commands go on after a recovery", commandsGoOn},
	}
}

// recorder is a driver that keeps records; one behind a wire does not show them.
type recorder interface {
	FinalRecord(id string) (*record.Record, error)
	Commands(id string) (*record.Commands, error)
}

// counting is a task of which processes end in turns, while a reader takes its stats.
type counting struct {
	*task
	recorder recorder
	// read ends the stream; nil if there is none.
	read context.CancelFunc
}

// turn is how many processes end at each turn: half of them fail.
const turn = 20

// newCounting starts a task that has so many turns, and skips a driver that counts no commands, or a machine without
// exit records.
func newCounting(ctx context.Context, e *Env, turns int) (*counting, error) {
	records, ok := e.Driver.(recorder)
	if !ok {
		return nil, skip("the driver keeps no records")
	}
	t, err := e.run(ctx, fmt.Sprintf(`for n in $(seq %d); do
		while ! [ -e go$n ]; do sleep 0.05; done
		for i in $(seq %d); do /bin/true; /bin/false; done
		echo over > over$n
	done; exec sleep 1000`, turns, turn/2))
	if err != nil {
		return nil, err
	}
	c := &counting{task: t, recorder: records}
	if err := c.follow(ctx, e); err != nil {
		return nil, err
	}
	switch commands, err := c.recorder.Commands(t.ID); {
	case err != nil:
		return nil, err
	case commands == nil:
		return nil, skip("the driver counts no commands")
	case commands.Reason != "":
		return nil, skip("no exit records: %s", commands.Reason)
	}
	return c, nil
}

// follow opens a stream, as a host does that publishes stats.
func (c *counting) follow(ctx context.Context, e *Env) error {
	ctx, c.read = context.WithCancel(ctx)
	stream, err := e.NomadStats(ctx, c.ID, time.Second)
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		return ifStats(err)
	}
	go func() {
		for err == nil {
			_, err = stream.Recv()
		}
	}()
	return nil
}

// take lets the processes of a turn end.
func (c *counting) take(ctx context.Context, e *Env, n int) error {
	if err := e.touch(c.task, fmt.Sprint("go", n)); err != nil {
		return err
	}
	_, err := e.awaitFile(ctx, c.task, fmt.Sprint("over", n))
	return err
}

// check holds what was counted against what has ended.
func (c *counting) check(commands *record.Commands, turns, gaps int) error {
	if commands == nil {
		return errors.New("no commands")
	}
	ended, failed := make(map[string]int64), make(map[string]int64)
	for i := range commands.Rows {
		ended[commands.Rows[i].Name], failed[commands.Rows[i].Name] = commands.Rows[i].Processes, commands.Rows[i].Failed
	}
	want := int64(turn / 2 * turns)
	if ended["true"] != want || ended["false"] != want || failed["true"] != 0 || failed["false"] != want || len(commands.Gaps) != gaps {
		return fmt.Errorf("%d of each have ended; counted %v, failed %v, gaps %v", want, ended, failed, commands.Gaps)
	}
	return nil
}

// end kills the task and checks its final record.
func (c *counting) end(ctx context.Context, e *Env, turns, gaps int) error {
	if err := e.StopTask(ctx, c.ID, 0, "SIGKILL"); err != nil {
		return err
	}
	if _, err := e.wait(ctx, c.task); err != nil {
		return err
	}
	final, err := c.recorder.FinalRecord(c.ID)
	if err != nil {
		return err
	}
	if final == nil {
		return errors.New("no final record")
	}
	if err := c.check(final.Commands, turns, gaps); err != nil {
		return fmt.Errorf("final record: %w", err)
	}
	return nil
}

func commandsCounted(ctx context.Context, e *Env) error {
	c, err := newCounting(ctx, e, 1)
	if err != nil {
		return err
	}
	defer c.read()
	if err := c.take(ctx, e, 1); err != nil {
		return err
	}
	commands, err := c.recorder.Commands(c.ID)
	if err != nil {
		return err
	}
	if err := c.check(commands, 1, 0); err != nil {
		return err
	}
	return c.end(ctx, e, 1, 0)
}

// commandsGoOn waits for a handover before the driver dies without warning: what ended until then is counted.
func commandsGoOn(ctx context.Context, e *Env) error {
	c, err := newCounting(ctx, e, 2)
	if err != nil {
		return err
	}
	if err := c.take(ctx, e, 1); err != nil {
		return err
	}
	const handover = 10 * time.Second
	select {
	case <-time.After(handover + 2*time.Second):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.read()
	if err := e.recrash(ctx, c.task); err != nil {
		return err
	}
	c.recorder, _ = e.Driver.(recorder)
	if err := c.follow(ctx, e); err != nil {
		return err
	}
	defer c.read()
	if err := c.take(ctx, e, 2); err != nil {
		return err
	}
	return c.end(ctx, e, 2, 1)
}
