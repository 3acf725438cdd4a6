// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/agent/feed"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/shape"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// topics is what a caller wants to hear of: keys by topic, * for all.
type topics map[string][]string

// allTopics are the topics of this agent and those that only a cluster has something to say of.
func allTopics() []string {
	return []string{
		"*", feed.TopicAllocation, feed.TopicJob, feed.TopicNode,
		"ACLPolicy", "ACLRole", "ACLToken", "Deployment", "Evaluation", "HostVolume", "NodeDrain", "NodePool", "Operator", "Service",
	}
}

// readTopics reads ?topic=Topic:key, given any number of times; none is everything.
func readTopics(r *http.Request) (topics, error) {
	list := topics{}
	for _, text := range r.URL.Query()["topic"] {
		topic, key, ok := strings.Cut(text, ":")
		if !ok || key == "" {
			key = "*"
		}
		if topic == "" {
			return nil, badRequest("invalid topic: must be TOPIC or TOPIC:KEY, such as Allocation:ID")
		}
		if !slices.Contains(allTopics(), topic) {
			return nil, badRequest("unknown topic " + topic + "; known topics: Allocation, Evaluation, Job, Node")
		}
		list[topic] = append(list[topic], key)
	}
	if len(list) == 0 {
		list["*"] = []string{"*"}
	}
	return list, nil
}

func (t topics) want(e *shape.Event) bool {
	for _, topic := range []string{e.Topic, "*"} {
		for _, key := range t[topic] {
			if key == "*" || key == e.Key || slices.Contains(e.FilterKeys, key) {
				return true
			}
		}
	}
	return false
}

// events is GET /v1/event/stream: one JSON object a line, {} as a sign of life.
func (s *Server) events(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	index := p.number("index")
	wanted, err := readTopics(r)
	if err = cmp.Or(err, p.err); err != nil {
		return err
	}
	after := s.agent.Feed().Index() // without an index only what happens from now on
	if p.values.Has("index") {
		after = max(index, 1) - 1 // Nomad's index is that of the first event
	}
	subscription := s.agent.Feed().Subscribe(after)
	w.Header().Set("Content-Type", "application/json")
	out := s.newStreamWriter(w, r)
	if out.Send([]byte("{}\n")) != nil {
		return nil
	}
	for sent := time.Now(); ; {
		e, err := nextEvent(ctx, subscription, s.heartbeat-time.Since(sent)) // events that are not wanted are no sign of life
		text := []byte("{}")
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, context.DeadlineExceeded):
		case err != nil:
			s.log.Error("event stream ended", "error", err)
			return nil
		case !inNamespace(r, e.Namespace) && e.Namespace != "":
			continue
		default:
			shown := slices.DeleteFunc(s.newEvents(r, &e), func(e shape.Event) bool { return !wanted.want(&e) })
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

func nextEvent(ctx context.Context, s *feed.Subscription, wait time.Duration) (feed.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return s.Next(ctx)
}

// newEvents is what a client of Nomad is told of an event. A decision over a job is an event of its own.
func (s *Server) newEvents(r *http.Request, e *feed.Event) []shape.Event {
	trusted := Trusted(r.Context())
	shown := shape.Event{Topic: e.Topic, Type: e.Type, Key: e.Key, Namespace: e.Namespace, FilterKeys: e.FilterKeys, Index: e.Index}
	shown.Payload.Tacho.Time, shown.Payload.Tacho.Task = e.Time, e.Task
	if shown.FilterKeys == nil {
		shown.FilterKeys = []string{}
	}
	if e.Allocation != nil {
		shown.Payload.Allocation = newAllocationJSON(e.Allocation, trusted)
	}
	if e.TaskEvent != nil {
		event := newTaskEvent(e.TaskEvent, trusted)
		shown.Payload.TaskEvent = &event
	}
	switch e.Topic {
	case feed.TopicNode:
		shown.Payload.Node = nodeOf(r, s.agent.Snapshot(""))
	case feed.TopicJob:
		j, err := s.agent.Snapshot().Job(e.Key) // as it is now: the feed does not hold what it was
		if err != nil {                         // it was purged
			j = &snapshot.Job{Job: &job.Job{ID: e.Key, Name: e.Key, Namespace: e.Namespace}, Stopped: true, Status: "dead", ModifyIndex: e.Index}
		}
		shown.Payload.Job = newJobJSON(j, trusted)
		trigger := map[string]trigger{"JobRegistered": registered, "JobDeregistered": deregistered}[e.Type]
		if trigger == "" {
			break
		}
		evaluation := newEvaluation(trigger, j)
		decided := shape.Event{
			Topic: "Evaluation", Type: "EvaluationUpdated", Key: evaluation.ID, Namespace: e.Namespace, FilterKeys: []string{e.Key}, Index: e.Index,
		}
		decided.Payload.Tacho.Time, decided.Payload.Evaluation = e.Time, evaluation
		return []shape.Event{shown, decided}
	}
	return []shape.Event{shown}
}
