// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
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
	"github.com/tachograph/tacho/internal/agent/shape"
)

// execHandshake is the first message of clients that cannot send headers: browsers.
type execHandshake struct {
	Version   int    `json:"version"`
	AuthToken string `json:"auth_token"`
}

// handshakeWait bounds the time for the first message, and of sending any.
const handshakeWait = 10 * time.Second

// exec is GET /v1/client/allocation/ID/exec?task=&command=&tty=, a WebSocket.
func (s *Server) exec(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	handshake, err := p.flag("ws_handshake"), p.err
	if err == nil && !handshake && !Trusted(r.Context()) {
		err = errUntrusted
	}
	if err != nil {
		return err
	}
	// Accept refuses an Origin that is not the Host, which has been checked before.
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return nil // it has answered
	}
	conn.SetReadLimit(1 << 20)
	input, err := s.runExec(ctx, conn, r, handshake)
	status, reason := websocket.StatusNormalClosure, ""
	if err != nil {
		status, reason = websocket.StatusCode(4000+statusOf(err)), closeText(err.Error())
	}
	_ = conn.Close(status, reason) // fails if the client is gone
	_ = conn.CloseNow()
	input.Wait()
	return nil
}

// closeText cuts a reason to what a close frame takes: few bytes, and of UTF-8, RFC 6455, section 5.5.
func closeText(text string) string { return strings.ToValidUTF8(text[:min(len(text), 120)], "") }

// runExec runs a command until its end, or until the client goes away. input is done when nobody reads from the
// connection any more, which is after it was closed.
func (s *Server) runExec(ctx context.Context, conn *websocket.Conn, r *http.Request, handshake bool) (input *sync.WaitGroup, err error) {
	input = new(sync.WaitGroup)
	if handshake {
		if err := s.execHandshake(ctx, conn, r); err != nil {
			return input, err
		}
	}
	var command []string
	if err := json.Unmarshal([]byte(r.URL.Query().Get("command")), &command); err != nil || len(command) == 0 {
		return input, badRequest("invalid command: must be a JSON list of words")
	}
	p := paramsOf(r)
	tty := p.flag("tty")
	if p.err != nil {
		return input, p.err
	}
	a, err := allocationOf(r, s.agent.Snapshot())
	if err != nil {
		return input, err
	}
	task, err := onlyTask(r, a)
	if err != nil {
		return input, err
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.agent.ExecTask(running, a.ID, task, driver.ExecOptions{Command: command, TTY: tty})
	if err != nil {
		return input, err
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
	return input, s.copyOutput(ctx, conn, stream)
}

// keepAlive sends signs of life until the client is gone: while the command reads no input nobody reads from the connection.
func (s *Server) keepAlive(ctx context.Context, conn *websocket.Conn) {
	beat := time.NewTicker(s.heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
		case <-ctx.Done():
			return
		}
		if s.send(ctx, conn, &shape.ExecOutput{}) != nil {
			return
		}
	}
}

// execHandshake takes the token of a client that could not send it before.
func (s *Server) execHandshake(ctx context.Context, conn *websocket.Conn, r *http.Request) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeWait)
	defer cancel()
	_, text, err := conn.Read(ctx)
	if err != nil {
		return badRequest("no handshake")
	}
	var hello execHandshake
	if err := json.Unmarshal(text, &hello); err != nil || hello.Version != 1 {
		return badRequest("unsupported handshake version: must be 1")
	}
	if Trusted(r.Context()) {
		return nil
	}
	probe := &http.Request{Header: http.Header{"X-Nomad-Token": {hello.AuthToken}}}
	trusted, err := s.checkToken(probe)
	if err == nil && !trusted {
		err = errUntrusted
	}
	return err
}

// copyInput passes on what the client types, until it goes away.
func copyInput(ctx context.Context, conn *websocket.Conn, stream driver.ExecStream) {
	for {
		var message shape.ExecInput
		if wsjson.Read(ctx, conn, &message) != nil {
			return
		}
		if size := message.TTYSize; size != nil && stream.Resize(driver.TerminalSize{Rows: size.Height, Columns: size.Width}) != nil {
			return
		}
		if in := message.Stdin; in != nil {
			if len(in.Data) > 0 {
				if _, err := stream.Write(in.Data); err != nil {
					continue // the command does not read any more; its output may still come
				}
			}
			if in.Close && stream.CloseWrite() != nil {
				continue
			}
		}
	}
}

// copyOutput passes on what the command writes, until its end.
func (s *Server) copyOutput(ctx context.Context, conn *websocket.Conn, stream driver.ExecStream) error {
	for {
		out, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if code := notStarted(err); code != 0 {
			// As a shell has it: to the command's own standard error, and with its exit codes.
			_ = s.sendOutput(ctx, conn, nil, []byte(err.Error()+"\n"), &code) // fails if the client is gone
			return nil
		}
		if err != nil {
			return err
		}
		var code *int
		if out.Exit != nil {
			if out.Exit.Err != nil {
				return out.Exit.Err
			}
			code = &out.Exit.Code
		}
		if err := s.sendOutput(ctx, conn, out.Stdout, out.Stderr, code); err != nil {
			return nil // the client is gone
		}
	}
}

// sendOutput sends each in a message of its own: clients of Nomad read one thing of a message.
func (s *Server) sendOutput(ctx context.Context, conn *websocket.Conn, stdout, stderr []byte, exitCode *int) error {
	var messages []*shape.ExecOutput
	if len(stdout) > 0 {
		messages = append(messages, &shape.ExecOutput{Stdout: shape.ExecData{Data: stdout}})
	}
	if len(stderr) > 0 {
		messages = append(messages, &shape.ExecOutput{Stderr: shape.ExecData{Data: stderr}})
	}
	if exitCode != nil {
		messages = append(messages, &shape.ExecOutput{Exited: true, Result: &shape.ExecResult{ExitCode: *exitCode}})
	}
	for _, m := range messages {
		if err := s.send(ctx, conn, m); err != nil {
			return err
		}
	}
	return nil
}

// notStarted is a shell's exit code for a command that could not be started; 0 for other errors and for none.
func notStarted(err error) int {
	switch {
	case errors.Is(err, driver.ErrCommandNotFound):
		return 127
	case errors.Is(err, driver.ErrNotExecutable):
		return 126
	}
	return 0
}

// send waits for a client that does not read for the moment, such as a pager.
func (s *Server) send(ctx context.Context, conn *websocket.Conn, message *shape.ExecOutput) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	return wsjson.Write(ctx, conn, message)
}
