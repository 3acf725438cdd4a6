// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/tachograph/tacho/internal/agent/apijson"
)

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
	target := c.target(pathOf("v1", "client", "allocation", id, "exec"), query)
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
