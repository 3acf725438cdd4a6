// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/procstats"
)

// Job is a job as its file says, and what became of it.
type Job struct {
	ID, Name, Namespace, Type, Status string
	Priority                          int
	Stop                              bool
	Version                           uint64
	// SubmitTime is in nanoseconds since 1970.
	SubmitTime int64
	TaskGroups []Group
	// Unplaced are the allocations that wait for a place on the node, by group.
	Unplaced map[string]apijson.Unplaced `json:"TachoUnplaced"`
}

// Group is a set of tasks that are started together, Count times.
type Group struct {
	Name  string
	Count int
	Tasks []Task
}

// Task is one command.
type Task struct {
	Name, Driver string
	Resources    apijson.Resources
	Lifecycle    *struct {
		Hook    string
		Sidecar bool
	}
}

// Source is a job file.
type Source struct {
	// Text is HCL, Filename is for messages.
	Text     string `json:"Source"`
	Filename string
	// Variables are the values of input variables, by name.
	Variables map[string]string `json:",omitempty"`
}

// Registration is what came of running a job file.
type Registration struct {
	Warnings string
	Tacho    struct {
		JobID   string
		Version uint64
		// Changed is false if the job ran already as the file says.
		Changed bool
	}
}

// Validation says what is wrong with a job file.
type Validation struct {
	// ValidationErrors have file, line and column each; empty for a good file.
	ValidationErrors []string
	Warnings         string
}

// The time for registering a job, in which templates are read and drivers asked, and for stopping one: hundreds of
// tasks may have to be told, and that is persisted.
const registering, stopping = time.Minute, time.Minute

// Jobs lists the jobs whose id begins with prefix.
func (c *Client) Jobs(ctx context.Context, prefix string) (Answer[[]apijson.JobStub], error) {
	return Get[[]apijson.JobStub](ctx, c, "/v1/jobs", "prefix", prefix)
}

// Job returns a job by its exact id.
func (c *Client) Job(ctx context.Context, id string) (Answer[Job], error) {
	return Get[Job](ctx, c, Path("v1", "job", id))
}

// RunJob registers a job file, and starts its tasks.
func (c *Client) RunJob(ctx context.Context, source Source) (Answer[Registration], error) {
	return put[Registration](ctx, c, "/v1/jobs", source, registering)
}

// ValidateJob checks a job file and changes nothing.
func (c *Client) ValidateJob(ctx context.Context, source Source) (Answer[Validation], error) {
	return put[Validation](ctx, c, "/v1/validate/job", source, registering)
}

// StopJob stops a job's allocations; with purge the job is removed, too.
func (c *Client) StopJob(ctx context.Context, id string, purge bool) error {
	_, err := do[any](ctx, c, call{
		method: http.MethodDelete, path: Path("v1", "job", id), query: queryOf("purge", strconv.FormatBool(purge)),
		patience: stopping,
	})
	return err
}

// JobAllocations lists a job's allocations, newest first.
func (c *Client) JobAllocations(ctx context.Context, id string, w Wait) (Answer[[]apijson.Allocation], error) {
	return getAfter[[]apijson.Allocation](ctx, c, Path("v1", "job", id, "allocations"), w)
}

// Allocations lists the allocations whose id begins with prefix, newest first.
func (c *Client) Allocations(ctx context.Context, prefix string) (Answer[[]apijson.Allocation], error) {
	return Get[[]apijson.Allocation](ctx, c, "/v1/allocations", "prefix", prefix)
}

// Allocation returns the one allocation whose id begins with prefix.
func (c *Client) Allocation(ctx context.Context, prefix string, w Wait) (Answer[apijson.Allocation], error) {
	return getAfter[apijson.Allocation](ctx, c, Path("v1", "allocation", prefix), w)
}

// StopAllocation stops an allocation; another replaces it.
func (c *Client) StopAllocation(ctx context.Context, id string) error {
	_, err := put[any](ctx, c, Path("v1", "allocation", id, "stop"), nil, 0)
	return err
}

// RestartAllocation restarts the running tasks, or one.
func (c *Client) RestartAllocation(ctx context.Context, id, task string) error {
	_, err := put[any](ctx, c, ofAllocation(id, "restart"), map[string]string{"TaskName": task}, 0)
	return err
}

// SignalAllocation sends a signal by name to the running tasks, or to one.
func (c *Client) SignalAllocation(ctx context.Context, id, task, signal string) error {
	_, err := put[any](ctx, c, ofAllocation(id, "signal"), map[string]string{"Task": task, "Signal": signal}, 0)
	return err
}

// ofAllocation returns a path below that of an allocation.
func ofAllocation(id string, words ...string) string {
	return Path("v1", "client", "allocation", id) + Path(words...)
}

// Commands returns what the ended processes of a task used, by command. The error is not found (IsNotFound) if they
// are not counted.
func (c *Client) Commands(ctx context.Context, id, task string) (Answer[record.Commands], error) {
	return Get[record.Commands](ctx, c, ofAllocation(id, "commands"), "task", task)
}

// Record returns the final record of a task's last ended start. The error is not found (IsNotFound) if none has ended.
func (c *Client) Record(ctx context.Context, id, task string) (Answer[record.Record], error) {
	return Get[record.Record](ctx, c, ofAllocation(id, "record"), "task", task)
}

// Stats is what the tasks of an allocation use.
type Stats struct{ Tacho apijson.Usage[*Sample] }

// Reading is what one task used when it was last read.
type Reading = apijson.Reading[*Sample]

// Sample is one reading of one task. Its JSON is made by procstats.AppendJSON.
type Sample struct {
	At time.Time `json:"at"`
	// Mono is the monotonic clock in seconds: rates divide by its differences.
	Mono         float64                         `json:"mono_seconds"`
	Measurements map[string]any                  `json:"measurements"`
	Absent       map[string]string               `json:"absent"`
	Headline     map[string]record.HeadlineValue `json:"headline"`
	Processes    *Processes                      `json:"processes"`
}

// Processes is the task's CPU time by process. What is not known is nil.
type Processes struct {
	// At is when the processes were read, which can be before the reading; zero if the agent does not say.
	At     time.Time `json:"at"`
	Rows   []Process `json:"rows"`
	Exited struct {
		CPUSeconds *float64 `json:"cpu_seconds_total"`
		Processes  *float64 `json:"processes"`
	} `json:"exited"`
	Unattributed struct {
		CPUSeconds *float64 `json:"cpu_seconds"`
	} `json:"unattributed"`
	// Total is the CPU time of the task at At, which the others add up to.
	Total struct {
		CPUSeconds *float64 `json:"cpu_seconds"`
	} `json:"total"`
	// Omitted counts processes that have no row.
	Omitted int `json:"omitted"`
}

// Process is one live process.
type Process = apijson.Process[any]

// Number returns a measurement of the task; ok is false if it was not read.
func (s *Sample) Number(id procstats.ID) (value float64, ok bool) {
	if s == nil {
		return 0, false
	}
	value, ok = s.Measurements[id.String()].(float64)
	return value, ok
}

// Part selects the task with a name, and of its processes those with a name. Empty is all.
type Part struct {
	Task, Process string
}

// Stats returns what the tasks of an allocation use.
func (c *Client) Stats(ctx context.Context, id string, part Part) (Answer[Stats], error) {
	return Get[Stats](ctx, c, ofAllocation(id, "stats"), "task", part.Task, "process", part.Process)
}

// AllStats returns what the tasks of all allocations use that have not ended, by the allocation's id.
func (c *Client) AllStats(ctx context.Context) (Answer[map[string]*Stats], error) {
	return Get[map[string]*Stats](ctx, c, "/v1/client/allocations/stats")
}

// Range selects from the history. Times are RFC 3339, seconds since 1970, or an age, such as 5m; empty for no bound.
// Step is a duration: at most one reading in each.
type Range struct {
	Since, Until, Step string
}

// History returns past readings, oldest first. They have processes if part names one.
func (c *Client) History(ctx context.Context, id string, part Part, r Range) (Answer[apijson.History], error) {
	return Get[apijson.History](ctx, c, ofAllocation(id, "stats", "history"), "task", part.Task, "process", part.Process,
		"since", r.Since, "until", r.Until, "step", r.Step)
}

// At returns the readings nearest to a time, which has the form of the times of Range.
func (c *Client) At(ctx context.Context, id string, part Part, at string) (Answer[apijson.Moment], error) {
	return Get[apijson.Moment](ctx, c, ofAllocation(id, "stats", "history"), "task", part.Task, "process", part.Process,
		"at", at)
}

// LogQuery selects a part of a task's log.
type LogQuery struct {
	// Task may be empty if there is only one.
	Task string
	// Stream is stdout or stderr.
	Stream string
	// Follow returns what is written later, too, until the task has ended.
	Follow bool
	// FromEnd counts Offset, in bytes, back from the end.
	FromEnd bool
	Offset  int64
}

// Logs returns what a task wrote; the caller closes it.
func (c *Client) Logs(ctx context.Context, id string, q LogQuery) (io.ReadCloser, error) {
	origin := ""
	if q.FromEnd {
		origin = "end"
	}
	query := queryOf("task", q.Task, "type", q.Stream, "plain", "true", "origin", origin,
		"follow", strconv.FormatBool(q.Follow), "offset", strconv.FormatInt(q.Offset, 10))
	path := Path("v1", "client", "fs", "logs", id)
	response, err := c.send(ctx, call{method: http.MethodGet, path: path, query: query}) //nolint:bodyclose // logBody does
	if err != nil {
		return nil, err
	}
	return &logBody{response}, nil
}

// logBody is a log whose end the agent may have explained.
type logBody struct{ *http.Response }

func (b *logBody) Read(p []byte) (int, error) {
	n, err := b.Body.Read(p)
	if why := b.Trailer.Get(apijson.StreamError); errors.Is(err, io.EOF) && why != "" {
		err = errors.New(why)
	}
	return n, err
}

func (b *logBody) Close() error { return b.Body.Close() }

// Event is an event of the agent.
type Event struct {
	apijson.Event

	// JSON is the event as it was received.
	JSON json.RawMessage `json:"-"`
}

// Events reads the agent's events one by one.
type Events struct {
	body    io.Closer
	decoder *json.Decoder
	waiting []json.RawMessage
}

// Events begins with the event that has the index, 0 for the oldest that is kept; from the next to come if live is
// set. topics are topics, or a topic and a key such as Job:web; none is all. The caller closes it.
func (c *Client) Events(ctx context.Context, index uint64, live bool, topics ...string) (*Events, error) {
	query := url.Values{}
	if !live {
		query.Set("index", strconv.FormatUint(index, 10))
	}
	for _, topic := range topics {
		query.Add("topic", topic)
	}
	r := call{method: http.MethodGet, path: "/v1/event/stream", query: query}
	response, err := c.send(ctx, r) //nolint:bodyclose // Events.Close does
	if err != nil {
		return nil, err
	}
	return &Events{body: response.Body, decoder: json.NewDecoder(response.Body)}, nil
}

// Next returns the next event. heartbeat reports that nothing had happened for a while: there is no event then.
// The error is io.EOF when the agent ended the stream.
func (e *Events) Next() (event Event, heartbeat bool, err error) {
	if len(e.waiting) == 0 {
		var line struct{ Events []json.RawMessage }
		if err := e.decoder.Decode(&line); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
				return event, false, err
			}
			return event, false, fmt.Errorf("read events: %w", err)
		}
		if len(line.Events) == 0 {
			return event, true, nil
		}
		e.waiting = line.Events
	}
	event.JSON, e.waiting = e.waiting[0], e.waiting[1:]
	if err := json.Unmarshal(event.JSON, &event); err != nil {
		return event, false, fmt.Errorf("read events: %w", err)
	}
	return event, false, nil
}

// Close ends the stream.
func (e *Events) Close() error { return e.body.Close() }

// Self is what the agent says of itself.
type Self struct {
	Tacho struct {
		Publishing bool   `json:"publishing"`
		Reason     string `json:"reason"`
		// Trusted says whether this client may see and do everything.
		Trusted bool   `json:"trusted"`
		Version string `json:"version"`
	}
}

// Self asks the agent about itself.
func (c *Client) Self(ctx context.Context) (Answer[Self], error) {
	return Get[Self](ctx, c, "/v1/agent/self")
}

// NodeStats is what the machine uses. Memory is nil if it could not be read.
type NodeStats struct {
	Memory *struct{ Total, Available float64 }
	CPU    []struct{ TotalPercent float64 }
}

// NodeStats asks the agent what its machine uses.
func (c *Client) NodeStats(ctx context.Context) (Answer[NodeStats], error) {
	return Get[NodeStats](ctx, c, "/v1/client/stats")
}

// ExecOptions say what to run beside a task.
type ExecOptions struct {
	// Task may be empty if there is only one.
	Task    string
	Command []string
	// TTY gives the command a terminal; all it writes is its standard output then.
	TTY bool
}

// Exec is a command that runs beside a task. Sending and receiving may go on at the same time.
type Exec struct {
	ctx  context.Context
	conn *websocket.Conn
}

// maxMessage bounds one piece of output in bytes.
const maxMessage = 4 << 20

// statusBase is what an agent adds to HTTP's status in its reason to close.
const statusBase = 4000

// Exec runs a command beside a running task for as long as ctx lives. The caller closes it.
func (c *Client) Exec(ctx context.Context, id string, o ExecOptions) (*Exec, error) {
	command, err := json.Marshal(o.Command)
	if err != nil {
		return nil, err
	}
	query := queryOf("task", o.Task, "command", string(command), "tty", strconv.FormatBool(o.TTY))
	target := c.target(ofAllocation(id, "exec"), query)
	header := http.Header{}
	c.sign(header)
	conn, response, err := websocket.Dial(ctx, target, &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: header})
	if response != nil && response.Body != nil {
		defer response.Body.Close()
	}
	switch {
	case err == nil:
	case response != nil && response.StatusCode/100 != 1:
		return nil, statusError(response)
	default:
		return nil, c.unreachable(ctx, err)
	}
	conn.SetReadLimit(maxMessage)
	return &Exec{ctx: ctx, conn: conn}, nil
}

// Recv returns what the command wrote, or its end, which has a Result.
func (e *Exec) Recv() (m apijson.ExecOutput, err error) {
	err = wsjson.Read(e.ctx, e.conn, &m)
	if closed, ok := errors.AsType[websocket.CloseError](err); ok && closed.Code > statusBase {
		return m, &StatusError{int(closed.Code) - statusBase, closed.Reason}
	}
	if err != nil {
		return m, fmt.Errorf("connection closed before the command ended: %w", err)
	}
	return m, nil
}

// Write sends to the command's standard input.
func (e *Exec) Write(p []byte) (int, error) {
	if err := e.send(apijson.ExecInput{Stdin: &apijson.ExecData{Data: p}}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CloseWrite ends the command's standard input.
func (e *Exec) CloseWrite() error {
	return e.send(apijson.ExecInput{Stdin: &apijson.ExecData{Close: true}})
}

// Resize tells the command's terminal its size.
func (e *Exec) Resize(rows, columns int) error {
	return e.send(apijson.ExecInput{TTYSize: &apijson.ExecSize{Height: rows, Width: columns}})
}

func (e *Exec) send(m apijson.ExecInput) error { return wsjson.Write(e.ctx, e.conn, m) }

// Close closes the connection; a command that still runs is killed.
func (e *Exec) Close() { _ = e.conn.CloseNow() } // there is nothing left to lose
