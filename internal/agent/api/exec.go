// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/apijson"
)

// exec runs a command beside a task, over a WebSocket.
func (s *Server) exec(ctx context.Context, w http.ResponseWriter, q *request) error {
	// Accept rejects an Origin that is not the Host, which was checked before.
	conn, err := websocket.Accept(w, q.Request, nil)
	if err != nil {
		return nil // it has responded
	}
	conn.SetReadLimit(1 << 20)
	var input sync.WaitGroup // ends after the connection was closed
	status, reason := websocket.StatusNormalClosure, ""
	if err := s.runExec(ctx, conn, q, &input); err != nil {
		status, reason = websocket.StatusCode(4000+statusOf(err)), closeText(err.Error())
	}
	_ = conn.Close(status, reason) // fails if the client is gone
	_ = conn.CloseNow()
	input.Wait()
	return nil
}

// closeText cuts a reason to the size of a close frame, in UTF-8: RFC 6455, section 5.5.
func closeText(text string) string { return strings.ToValidUTF8(text[:min(len(text), 120)], "") }

// runExec runs a command until its end, or until the client goes away. input reads from the connection.
func (s *Server) runExec(ctx context.Context, conn *websocket.Conn, q *request, input *sync.WaitGroup) error {
	var command []string
	if err := json.Unmarshal([]byte(q.values.Get("command")), &command); err != nil || len(command) == 0 {
		return badRequest("invalid command: must be a JSON list of words")
	}
	tty := q.flag("tty")
	if q.err != nil {
		return q.err
	}
	a, err := s.agent.Snapshot().Allocation(q.id())
	if err != nil {
		return err
	}
	task, err := q.onlyTask(a)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.agent.ExecTask(running, a.ID, task, driver.ExecOptions{Command: command, TTY: tty})
	if err != nil {
		return err
	}
	input.Go(func() {
		defer cancel() // a client that goes away ends the command
		copyInput(ctx, conn, stream)
	})
	var beating sync.WaitGroup
	defer beating.Wait()
	defer cancel()
	beating.Go(func() {
		defer cancel()
		s.keepAlive(running, conn)
	})
	return s.copyOutput(ctx, conn, stream)
}

// keepAlive sends signs of life until the client is gone: while the command reads no input, nothing is read from the
// connection either.
func (s *Server) keepAlive(ctx context.Context, conn *websocket.Conn) {
	beat := time.Tick(s.heartbeat)
	for {
		select {
		case <-beat:
		case <-ctx.Done():
			return
		}
		if s.send(ctx, conn, &apijson.ExecOutput{}) != nil {
			return
		}
	}
}

// copyInput passes on what the client types, until it goes away.
func copyInput(ctx context.Context, conn *websocket.Conn, stream driver.ExecStream) {
	for {
		var message apijson.ExecInput
		if wsjson.Read(ctx, conn, &message) != nil {
			return
		}
		if size := message.TTYSize; size != nil {
			if stream.Resize(driver.TerminalSize{Rows: size.Height, Columns: size.Width}) != nil {
				return
			}
		}
		if in := message.Stdin; in != nil {
			if len(in.Data) > 0 {
				if _, err := stream.Write(in.Data); err != nil {
					continue // the command no longer reads; its output may still come
				}
			}
			if in.Close && stream.CloseWrite() != nil {
				continue
			}
		}
	}
}

// copyOutput passes on what the command writes, until its end. Each piece is a message of its own, as in Nomad.
func (s *Server) copyOutput(ctx context.Context, conn *websocket.Conn, stream driver.ExecStream) error {
	for {
		out, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if code := exitCodeOf(err); code != 0 { // as a shell does
			out.Stderr, out.Exit, err = []byte(err.Error()+"\n"), &driver.ExitResult{Code: code}, nil
		}
		if out.Exit != nil {
			err = cmp.Or(err, out.Exit.Err)
		}
		if err != nil {
			return err
		}
		var messages []*apijson.ExecOutput
		if len(out.Stdout) > 0 {
			messages = append(messages, &apijson.ExecOutput{Stdout: apijson.ExecData{Data: out.Stdout}})
		}
		if len(out.Stderr) > 0 {
			messages = append(messages, &apijson.ExecOutput{Stderr: apijson.ExecData{Data: out.Stderr}})
		}
		if out.Exit != nil {
			result := &apijson.ExecResult{ExitCode: out.Exit.Code}
			messages = append(messages, &apijson.ExecOutput{Exited: true, Result: result})
		}
		for _, m := range messages {
			if s.send(ctx, conn, m) != nil {
				return nil // the client is gone
			}
		}
		if out.Exit != nil {
			return nil
		}
	}
}

// exitCodeOf returns a shell's exit code for a command that could not be started; 0 for other errors.
func exitCodeOf(err error) int {
	switch {
	case errors.Is(err, driver.ErrCommandNotFound):
		return 127
	case errors.Is(err, driver.ErrNotExecutable):
		return 126
	}
	return 0
}

// send waits for a client that does not read for the moment, such as a pager.
func (s *Server) send(ctx context.Context, conn *websocket.Conn, message *apijson.ExecOutput) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	return wsjson.Write(ctx, conn, message)
}
