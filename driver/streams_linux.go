// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/driver/sampling"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/network"
)

// maxOutput bounds what ExecTask keeps of the output: its callers are checks, which print little.
const maxOutput = 1 << 20

// ExecTask runs a command beside the main process and returns what it wrote. It is killed after timeout; 0 means no
// limit. Beyond 1 MiB of output the rest is dropped.
func (d *Tacho) ExecTask(ctx context.Context, id string, command []string, timeout time.Duration) (*ExecResult, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout,
			fmt.Errorf("command was killed after %s: %w", timeout, context.DeadlineExceeded))
		defer cancel()
	}
	stream, err := d.ExecTaskStreaming(ctx, id, ExecOptions{Command: command})
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	if err := stream.CloseWrite(); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("exec: %w", err)
	}
	result := &ExecResult{}
	for {
		output, err := stream.Recv()
		if err != nil {
			return nil, fmt.Errorf("exec: %w", cmp.Or(context.Cause(ctx), err))
		}
		result.Output = appendBounded(appendBounded(result.Output, output.Stdout), output.Stderr)
		if output.Exit != nil {
			result.Exit = *output.Exit
			return result, nil
		}
	}
}

func appendBounded(kept, more []byte) []byte {
	return append(kept, more[:min(len(more), maxOutput-len(kept))]...)
}

// ExecTaskStreaming runs a command beside the main process with live streams, as long as ctx lives.
func (d *Tacho) ExecTaskStreaming(ctx context.Context, id string, options ExecOptions) (ExecStream, error) {
	t, err := d.find(id)
	if err != nil {
		return nil, err
	}
	if len(options.Command) == 0 || options.Command[0] == "" {
		return nil, invalid("exec: no command")
	}
	if !t.running() {
		return nil, fmt.Errorf("exec in task %s: %w", t.config.Name, ErrTaskNotRunning)
	}
	if err := t.answers(ctx); err != nil {
		return nil, fmt.Errorf("exec in task %s: %w", t.config.Name, err)
	}
	stream, err := t.client.Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("exec in task %s: %w", t.config.Name, err)
	}
	e := &execStream{stream: stream}
	setup := &proto.ExecSetup{Command: options.Command, Tty: options.TTY}
	err = e.send(&proto.ExecRequest{Message: &proto.ExecRequest_Setup{Setup: setup}})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("exec in task %s: %w", t.config.Name, err)
	}
	return e, nil
}

// execStream is an exec of an executor.
type execStream struct {
	stream grpc.BidiStreamingClient[proto.ExecRequest, proto.ExecResponse]

	sending sync.Mutex // guards the sending side of stream, which takes one message at a time
}

func (e *execStream) Recv() (ExecOutput, error) {
	for {
		m, err := e.stream.Recv()
		if err != nil {
			return ExecOutput{}, launchStatus(err)
		}
		switch message := m.GetMessage().(type) {
		case *proto.ExecResponse_Stdout:
			return ExecOutput{Stdout: message.Stdout}, nil
		case *proto.ExecResponse_Stderr:
			return ExecOutput{Stderr: message.Stderr}, nil
		case *proto.ExecResponse_Exit:
			return ExecOutput{Exit: &ExitResult{
				Code: int(message.Exit.GetCode()), Signal: int(message.Exit.GetSignal()),
			}}, nil
		}
	}
}

// launchStatus is what an executor has against a command, without the words of its wire.
func launchStatus(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	switch text := status.Convert(err).Message(); status.Code(err) {
	case codes.NotFound:
		return fmt.Errorf("%w: %s", ErrCommandNotFound, strings.TrimSuffix(text, ": command not found"))
	case codes.PermissionDenied:
		return fmt.Errorf("%w: %s", ErrNotExecutable, strings.TrimSuffix(text, ": not executable"))
	}
	return Recoverable(launchError(err), false)
}

func (e *execStream) Write(p []byte) (int, error) {
	if err := e.send(&proto.ExecRequest{Message: &proto.ExecRequest_Stdin{Stdin: p}}); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (e *execStream) CloseWrite() error {
	return e.send(&proto.ExecRequest{Message: &proto.ExecRequest_StdinClose{StdinClose: true}})
}

func (e *execStream) Resize(size TerminalSize) error {
	return e.send(&proto.ExecRequest{Message: &proto.ExecRequest_Window{Window: &proto.WindowSize{
		Rows: uint32(size.Rows), Columns: uint32(size.Columns),
	}}})
}

func (e *execStream) send(m *proto.ExecRequest) error {
	e.sending.Lock()
	defer e.sending.Unlock()
	return e.stream.Send(m)
}

// shortestInterval bounds what one reader can cost.
const shortestInterval = 10 * time.Millisecond

// baselineAge is how old a sample may be for the first rate to be measured from it. An older one would make the
// first answer an average over a time before the question.
const baselineAge = 10 * time.Second

// TaskStats sends one sample at once and then one every interval. The stream ends with io.EOF when the task has ended.
// Errors of opening may come with the first Recv.
func (d *Tacho) TaskStats(ctx context.Context, id string, interval time.Duration) (StatsStream, error) {
	t, err := d.find(id)
	if err != nil {
		return nil, err
	}
	if interval < shortestInterval {
		return nil, invalid("stats interval %s, the shortest is %s", interval, shortestInterval)
	}
	if !t.running() {
		return ended{}, nil
	}
	own := d.currentConfig()
	settings := own.of(t.config)
	stream, err := d.loop.Open(ctx, t.sampled(settings, own.SamplingBudget), interval)
	switch {
	case err == nil:
		t.unreadable.Store(nil)
		return stream, nil
	case !errors.Is(err, sampling.ErrUnreadable):
		return nil, fmt.Errorf("open stats: %w", err)
	}
	t.unreadable.Store(&err)
	t.log.Debug("stats are read by the executor", "reason", err)
	return t.executorStats(ctx, interval, *settings.MaxRows > 0)
}

// Watch sends samples of a cgroup that something else made, as TaskStats does of a task, with the driver's settings for
// all tasks; id names it, also for Commands. The stream ends with io.EOF when the cgroup is removed; the error wraps
// fs.ErrNotExist if it was. Nothing in the cgroup is signaled, moved or written, and no executor reads it: there are
// neither directory sizes nor proportional memory.
func (d *Tacho) Watch(
	ctx context.Context, id string, group procstats.Cgroup, interval time.Duration,
) (StatsStream, error) {
	s := d.currentConfig().Settings
	slow := procstats.SourceSelection(procstats.SourceDisk).Union(procstats.SourceSelection(procstats.SourceSmaps))
	stream, err := d.loop.Open(ctx, sampling.Task{
		ID: id, Cgroup: group, Selection: s.measured().Minus(slow), MaxRows: *s.MaxRows, Rows: *s.MaxRows > 0,
		RowInterval: s.RowInterval, SamplingBudget: s.SamplingBudget,
	}, interval)
	if err != nil {
		return nil, fmt.Errorf("watch cgroup: %w", err)
	}
	return stream, nil
}

// sampled is the task as the driver's loop reads it. The budget is of tasks that have none of their own.
func (t *task) sampled(settings Settings, budget float64) sampling.Task {
	address := t.client.Address()
	return sampling.Task{
		ID: t.config.ID, Executor: t.client, Process: address.Executor, Folder: address.Folder, Cgroup: address.Cgroup,
		Started: t.state.StartedAt, Rows: *settings.MaxRows > 0, RowInterval: settings.RowInterval, Done: t.done,
		SamplingBudget: cmp.Or(t.state.SamplingBudget, budget),
		Stretched:      func(text string) { t.addEvent(time.Now(), text, nil, nil) },
	}
}

// whyUncounted says why the loop counts neither the ended processes nor the packets of the task.
func (t *task) whyUncounted() string {
	own := procstats.Cgroup{}
	if t.client != nil {
		own = t.client.Address().Cgroup
	}
	reason := t.unreadable.Load()
	switch {
	case own.V2 == "" || !own.Encloses():
		return network.NoCgroup
	case reason != nil:
		return "not counted: " + (*reason).Error()
	}
	return record.NotSampled
}

// executorStats opens a stream of samples that the executor takes.
func (t *task) executorStats(ctx context.Context, interval time.Duration, rows bool) (StatsStream, error) {
	// Totals alone: of a young task they are those that the executor read before the start.
	baseline, err := t.client.Sample(ctx, baselineAge, false)
	if err != nil {
		return nil, fmt.Errorf("first sample: %w", err)
	}
	stream, err := t.client.Stats(ctx, interval, rows)
	if err != nil {
		return nil, fmt.Errorf("open stats: %w", err)
	}
	return &statsStream{ctx: ctx, baseline: baseline, stream: stream}, nil
}

type statsStream struct {
	ctx      context.Context
	baseline *procstats.Sample
	stream   *client.StatsStream
	sent     time.Duration // when the newest sample was taken, on the monotonic clock
}

// Baseline implements StatsStream.
func (s *statsStream) Baseline() *procstats.Sample { return s.baseline }

// Recv returns the next sample. Ticks are the same for all tasks of a host, so the second can come so soon after
// the first that the executor answers with the same sample; a sample is sent once.
func (s *statsStream) Recv() (*procstats.Sample, error) {
	for {
		sample, err := s.stream.Recv()
		switch {
		case err != nil && s.ctx.Err() != nil:
			return nil, context.Cause(s.ctx)
		case errors.Is(err, client.ErrLost): // how the task ended is WaitTask's to say
			return nil, io.EOF
		case err != nil:
			return nil, err
		case sample.Mono > s.sent:
			s.sent = sample.Mono
			return sample, nil
		}
	}
}

// ended is the stream of a task that has ended.
type ended struct{}

func (ended) Recv() (*procstats.Sample, error) { return nil, io.EOF }

func (ended) Baseline() *procstats.Sample { return nil }

// sample returns a reading of a running task, at most maxAge old.
func (t *task) sample(ctx context.Context, maxAge time.Duration, rows bool) (*procstats.Sample, error) {
	if !t.running() {
		return nil, ErrTaskNotRunning
	}
	if s := t.loop.Sample(t.config.ID, maxAge, rows); s != nil {
		return s, nil
	}
	if !t.recoveredAt.IsZero() {
		// What the executor has cached may be older than what the loop of an earlier process has shown: counters
		// would fall.
		maxAge = min(maxAge, time.Since(t.recoveredAt))
	}
	return t.client.Sample(ctx, maxAge, rows)
}
