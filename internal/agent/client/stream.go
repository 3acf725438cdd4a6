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

	"github.com/tachograph/tacho/internal/agent/apijson"
)

// LogQuery selects a part of a task's log.
type LogQuery struct {
	// Task may be empty if there is only one.
	Task string
	// Stream is stdout or stderr.
	Stream string
	// Follow goes on with what is written, until the task has ended.
	Follow bool
	// FromEnd counts Offset, in bytes, back from the end.
	FromEnd bool
	Offset  int64
}

// Logs returns what a task wrote; the caller closes it.
func (c *Client) Logs(ctx context.Context, id string, q LogQuery) (io.ReadCloser, error) {
	query := queryOf("task", q.Task, "type", q.Stream, "plain", "true",
		"follow", strconv.FormatBool(q.Follow), "offset", strconv.FormatInt(q.Offset, 10))
	if q.FromEnd {
		query.Set("origin", "end")
	}
	response, err := c.send(ctx, call{method: http.MethodGet, path: pathOf("v1", "client", "fs", "logs", id), query: query})
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

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
	response, err := c.send(ctx, call{method: http.MethodGet, path: "/v1/event/stream", query: query}) //nolint:bodyclose // Events.Close does
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
	return get[Self](ctx, c, "/v1/agent/self", nil)
}
