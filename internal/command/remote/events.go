// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
)

// eventsOptions are the flags of tacho events.
type eventsOptions struct {
	follow bool
	topics []string
	output *outputFlags
}

func newEvents() *cobra.Command {
	cmd := cli.Described(help, "events")
	o := &eventsOptions{output: addOutputFlags(cmd)}
	o.output.oneLine = true
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "follow new events")
	const topic = "print only events of this `TOPIC`: %s, or of one id, such as Job:web; may be repeated"
	cmd.Flags().Func("topic", fmt.Sprintf(topic, cli.OrList(eventTopics())), o.addTopic)
	_ = cmd.RegisterFlagCompletionFunc("topic", cobra.FixedCompletions(eventTopics(), cobra.ShellCompDirectiveNoFileComp))
	return withAgent(cmd, nil, untilInterrupted(o.print))
}

// eventTopics are the topics that an agent has events of.
func eventTopics() []string { return []string{"Job", "Allocation", "Evaluation", "Node"} }

// addTopic adds a topic, or one of a key, to those of the flag.
func (o *eventsOptions) addTopic(text string) error {
	if topic, _, _ := strings.Cut(text, ":"); !slices.Contains(eventTopics(), topic) {
		return fmt.Errorf("must be %s, or one of them with an id, such as Job:web", cli.OrList(eventTopics()))
	}
	o.topics = append(o.topics, text)
	return nil
}

// quiet is how long to wait for more of the existing events.
const quiet = 300 * time.Millisecond

func (o *eventsOptions) print(c *call) error {
	now, err := c.Self(c.ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	events, err := c.Events(ctx, 0, false, o.topics...)
	if err != nil {
		return err
	}
	defer events.Close()
	// Without --follow the output ends with the newest event at the start. If that has another topic, it is never sent:
	// the output ends after a pause.
	next := func() (event client.Event, heartbeat bool, err error) {
		if !o.follow {
			defer time.AfterFunc(quiet, cancel).Stop()
		}
		return events.Next()
	}
	for {
		event, heartbeat, err := next()
		switch {
		case errors.Is(err, io.EOF), err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case heartbeat:
			continue
		}
		if o.output.set() {
			err = o.output.print(c.out, event.JSON)
		} else {
			_, err = io.WriteString(c.out, eventText(c.palette, &event))
		}
		if err != nil {
			return err
		}
		if !o.follow && event.Index >= now.Index {
			return nil
		}
	}
}

// eventText returns an event in one line, on a terminal in as many as its message takes.
func eventText(p cli.Palette, e *client.Event) string {
	at := e.Payload.Tacho.Time
	a, t := e.Payload.Allocation, e.Payload.TaskEvent
	words, message := []string{p.Faint(clockText(at)), cli.Printable(e.Type)}, ""
	switch {
	case a != nil:
		words = append(words, shortID(a.ID), cli.Printable(a.Name))
	case t != nil:
		words = append(words, shortID(cli.Printable(e.Key)))
	default:
		words = append(words, cli.Printable(e.Key))
	}
	switch {
	case t != nil:
		words[1] = "Task"
		words = append(words, p.Bold(cli.Printable(e.Payload.Tacho.Task)),
			cli.Painted(t.Type, eventPaint(p, t.Type)).String())
		message = cli.OneLine(t.DisplayMessage)
	case a != nil:
		words = append(words, statusCell(p, a.ClientStatus).String())
		message = cli.OneLine(a.ClientDescription)
	}
	if message != "" {
		words = append(words, "")
	}
	return cli.Hang(p, strings.Join(words, "  "), "    ", message, nil)
}
