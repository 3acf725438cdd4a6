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

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/tachograph/tacho/internal/agent/apijson"
)

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
