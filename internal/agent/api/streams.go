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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// topics are the keys that a caller subscribes to, by topic; * is all.
type topics map[string][]string

// allTopics are the topics of this agent and those of a cluster.
func allTopics() []string {
	return []string{
		"*", snapshot.TopicAllocation, snapshot.TopicJob, snapshot.TopicNode, "ACLPolicy", "ACLRole", "ACLToken",
		"Deployment", "Evaluation", "HostVolume", "NodeDrain", "NodePool", "Operator", "Service",
	}
}

// topics reads ?topic=Topic:key, which can be repeated; the default is everything.
func (q *request) topics() (topics, error) {
	list := topics{}
	for _, text := range q.values["topic"] {
		topic, key, _ := strings.Cut(text, ":")
		if topic == "" {
			return nil, badRequest("invalid topic: must be TOPIC or TOPIC:KEY, such as Allocation:ID")
		}
		if !slices.Contains(allTopics(), topic) {
			return nil, badRequest("unknown topic " + topic + "; known topics: Allocation, Evaluation, Job, Node")
		}
		list[topic] = append(list[topic], cmp.Or(key, "*"))
	}
	if len(list) == 0 {
		list["*"] = []string{"*"}
	}
	return list, nil
}

func (t topics) want(e *apijson.Event) bool {
	return slices.ContainsFunc(slices.Concat(t[e.Topic], t["*"]), func(key string) bool {
		return key == "*" || key == e.Key || slices.Contains(e.FilterKeys, key)
	})
}

// events sends one JSON object a line, {} as a sign of life.
func (s *Server) events(ctx context.Context, w http.ResponseWriter, q *request) error {
	index := q.number("index")
	wanted, err := q.topics()
	if err = cmp.Or(err, q.err); err != nil {
		return err
	}
	after := s.agent.Feed().Index() // without an index only later events
	if q.values.Has("index") {
		after = max(index, 1) - 1 // Nomad's index names the first event
	}
	subscription := s.agent.Feed().Subscribe(after)
	w.Header().Set("Content-Type", "application/json")
	out := s.newStreamWriter(w, q)
	if out.Send([]byte("{}\n")) != nil {
		return nil
	}
	for sent := time.Now(); ; {
		// Events that are not wanted are no sign of life.
		e, err := nextEvent(ctx, subscription, s.heartbeat-time.Since(sent))
		text := []byte("{}")
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, context.DeadlineExceeded):
		case err != nil:
			s.log.Error("event stream ended", "error", err)
			return nil
		case !q.inNamespace(e.Namespace) && e.Namespace != "":
			continue
		default:
			shown := slices.DeleteFunc(s.newEvents(q, &e), func(e apijson.Event) bool { return !wanted.want(&e) })
			if len(shown) == 0 {
				continue
			}
			if text, err = json.Marshal(map[string]any{"Index": e.Index, "Events": shown}); err != nil {
				s.log.Error("event has no JSON", "error", err)
				return nil
			}
		}
		if out.Send(append(text, '\n')) != nil {
			return nil
		}
		sent = time.Now()
	}
}

func nextEvent(ctx context.Context, s *snapshot.Subscription, wait time.Duration) (snapshot.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return s.Next(ctx)
}

// newEvents returns an event in Nomad's shape. A decision over a job is an event of its own.
func (s *Server) newEvents(q *request, e *snapshot.Event) []apijson.Event {
	newEvent := func(topic, kind, key string, filterKeys ...string) apijson.Event {
		shown := apijson.Event{
			Topic: topic, Type: kind, Key: key, Namespace: e.Namespace, FilterKeys: append([]string{}, filterKeys...),
			Index: e.Index,
		}
		shown.Payload.Tacho.Time = e.Time
		return shown
	}
	shown := newEvent(e.Topic, e.Type, e.Key, e.FilterKeys...)
	shown.Payload.Tacho.Task = e.Task
	if e.Allocation != nil {
		shown.Payload.Allocation = newAllocationJSON(e.Allocation, q.trusted)
	}
	if e.TaskEvent != nil {
		shown.Payload.TaskEvent = new(newTaskEvent(e.TaskEvent, q.trusted))
	}
	switch e.Topic {
	case snapshot.TopicNode:
		shown.Payload.Node = nodeOf(q, s.agent.Snapshot(noAllocation))
	case snapshot.TopicJob:
		j, err := s.agent.Snapshot().Job(e.Key) // its current state: the feed does not have the earlier one
		if err != nil {                         // it was purged
			purged := &job.Job{ID: e.Key, Name: e.Key, Namespace: e.Namespace}
			j = &snapshot.Job{Job: purged, Stopped: true, Status: "dead", ModifyIndex: e.Index}
		}
		shown.Payload.Job = newJobJSON(j, q.trusted)
		trigger := map[string]trigger{"JobRegistered": registered, "JobDeregistered": deregistered}[e.Type]
		if trigger == "" {
			break
		}
		evaluation := newEvaluation(trigger, j)
		decided := newEvent("Evaluation", "EvaluationUpdated", evaluation.ID, e.Key)
		decided.Payload.Evaluation = evaluation
		return []apijson.Event{shown, decided}
	}
	return []apijson.Event{shown}
}

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
