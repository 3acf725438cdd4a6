// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/procstats"
)

// screen shares the terminal between the command's output and the live line. The line is drawn only where it cannot
// get into the way: at the beginning of a line, and not while the command has taken over its terminal (an editor, a
// password prompt), which its modes tell.
type screen struct {
	errors io.Writer
	// master is the command's terminal; nil where its output does not pass through us.
	master   *os.File
	terminal bool
	silent   bool

	mu      sync.Mutex // guards following
	drawn   bool
	midLine bool
}

func newScreen(stderr io.Writer, streams *sessionStreams, o *runOptions) *screen {
	return &screen{errors: stderr, master: streams.master, terminal: cli.IsTerminal(stderr), silent: o.quiet}
}

// output shows what the command wrote to a terminal of its own on one of ours.
func (s *screen) output(to *os.File, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLocked()
	if _, err := to.Write(text); err == nil {
		s.midLine = !bytes.HasSuffix(text, []byte("\n"))
	}
}

// note tells the user something beside the command's output.
func (s *screen) note(text string) {
	if s.silent {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLineLocked()
	_, _ = fmt.Fprintf(s.errors, "tacho: %s%s", cli.OneLine(text), s.newline()) // nowhere to tell of a fault
}

// endLine ends what the command wrote last without a newline, for what follows to stand alone. The terminal has been
// given back.
func (s *screen) endLine() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.master = nil
	s.endLineLocked()
}

func (s *screen) endLineLocked() {
	s.eraseLocked()
	if s.midLine && s.terminal {
		_, _ = io.WriteString(s.errors, s.newline()) // nowhere to tell of a fault
		s.midLine = false
	}
}

// newline is what ends a line: a raw terminal needs the carriage return too.
func (s *screen) newline() string {
	if s.master != nil && s.terminal {
		return "\r\n"
	}
	return "\n"
}

func (s *screen) eraseLocked() {
	if s.drawn {
		_, _ = io.WriteString(s.errors, "\r\x1b[K") // nowhere to tell of a fault
		s.drawn = false
	}
}

// draw shows the live line in place of the last one.
func (s *screen) draw(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.midLine || !s.free() {
		s.eraseLocked()
		return
	}
	if columns, _ := cli.TerminalSize(s.errors); columns > 0 && len([]rune(line)) > columns-1 {
		line = string([]rune(line)[:columns-1])
	}
	_, _ = fmt.Fprintf(s.errors, "\r%s\x1b[K\r", line) // nowhere to tell of a fault
	s.drawn = true
}

// free reports whether the command reads its terminal line by line with echo, as it was given it, and no shell reads
// ours, because we are its background job.
func (s *screen) free() bool {
	if file, ok := s.errors.(*os.File); ok && !foreground(file) {
		return false
	}
	if s.master == nil {
		return true
	}
	var modes *unix.Termios
	err := ioctl(s.master, func(fd int) (err error) {
		modes, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	return err == nil && modes.Lflag&unix.ICANON != 0 && modes.Lflag&unix.ECHO != 0
}

// clear takes the live line away.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLocked()
}

// follow shows what the task uses until ctx or the task ends: a live line on a terminal, otherwise a plain line per
// report interval. The channel is closed then.
func (s *screen) follow(ctx context.Context, c *client.Client, o *runOptions) <-chan struct{} {
	done := make(chan struct{})
	if s.silent || o.live.String() == "never" {
		close(done)
		return done
	}
	interval := o.reportInterval
	if s.terminal {
		const liveliest = 500 * time.Millisecond
		interval = max(o.interval, liveliest)
	}
	go func() {
		defer close(done)
		defer s.clear()
		s.showStats(ctx, c, interval)
	}()
	return done
}

// showStats draws every sample of a stream. A stream that fails only ends the line: the command goes on, and its end
// tells the rest.
func (s *screen) showStats(ctx context.Context, c *client.Client, interval time.Duration) {
	stream, err := c.Stats(ctx, interval, true)
	if err != nil {
		return
	}
	began := time.Now()
	var previous *procstats.Sample
	for {
		sample, err := stream.Recv()
		if err != nil {
			return
		}
		if previous != nil {
			line := liveLine(sample, previous, time.Since(began))
			if s.terminal {
				s.draw("tacho " + line)
			} else {
				s.note(line)
			}
		}
		previous = sample
	}
}

// liveLine is what a task uses now, in one line.
func liveLine(sample, previous *procstats.Sample, elapsed time.Duration) string {
	words := []string{procstats.AgeText(elapsed)}
	for _, h := range procstats.Headlines(sample, procstats.History{Previous: previous}) {
		value, ok := h.Reading.Number()
		if !ok {
			continue
		}
		switch h.ID {
		case procstats.HeadlineCores:
			words = append(words, procstats.Cores.Text(value))
		case procstats.HeadlineMemory:
			words = append(words, "memory "+procstats.Bytes.Text(value))
		case procstats.HeadlineMemoryPeak:
			words = append(words, "peak "+procstats.Bytes.Text(value))
		case procstats.HeadlineIORead:
			words = append(words, "read "+procstats.Bytes.Text(value))
		case procstats.HeadlineIOWrite:
			words = append(words, "written "+procstats.Bytes.Text(value))
		}
	}
	if processes, ok := sample.Task.Number(procstats.CgroupPidsCurrent); ok {
		words = append(words, fmt.Sprintf("%.0f threads", processes))
	}
	return strings.Join(words, " · ")
}
