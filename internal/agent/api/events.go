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
		event := newTaskEvent(e.TaskEvent, q.trusted)
		shown.Payload.TaskEvent = &event
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
