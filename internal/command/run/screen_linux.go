// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// screen shares the terminal between the output of the command and the live line. The live line is drawn only at the
// beginning of a line, and not while the command has changed the modes of its terminal (an editor, a password prompt).
type screen struct {
	stderr io.Writer
	// master is the terminal of the command; nil if the command has our descriptors.
	master   *os.File
	terminal bool
	live     bool // the terminal can draw
	silent   bool

	mu      sync.Mutex // guards following
	drawn   bool
	midLine bool
}

func newScreen(stderr io.Writer, streams *sessionStreams, o *runOptions) *screen {
	return &screen{
		stderr: stderr, master: streams.master, terminal: cli.IsTerminal(stderr), live: cli.CanDraw(stderr), silent: o.quiet,
	}
}

// output writes what the command wrote to its terminal to ours.
func (s *screen) output(to *os.File, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLocked()
	if _, err := to.Write(text); err == nil {
		s.midLine = !bytes.HasSuffix(text, []byte("\n"))
	}
}

// note prints a line about the run, unless only errors are to be printed.
func (s *screen) note(text string) {
	if !s.silent {
		s.fail(errors.New(text))
	}
}

// fail prints an error that does not end the run; nothing for nil.
func (s *screen) fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLineLocked()
	s.write("tacho: " + cli.OneLine(err.Error()) + s.newline())
}

// write writes to stderr. There is no other place to report an error.
func (s *screen) write(text string) { _, _ = io.WriteString(s.stderr, text) }

// endLine starts a new line if the output of the command did not end with a newline. The terminal is not raw any more.
func (s *screen) endLine() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.master = nil
	s.endLineLocked()
}

func (s *screen) endLineLocked() {
	s.eraseLocked()
	if s.midLine && s.terminal {
		s.write(s.newline())
		s.midLine = false
	}
}

// newline returns the end of a line; a raw terminal needs the carriage return.
func (s *screen) newline() string {
	if s.master != nil && s.terminal {
		return "\r\n"
	}
	return "\n"
}

func (s *screen) eraseLocked() {
	if s.drawn {
		s.write("\r\x1b[K")
		s.drawn = false
	}
}

// draw replaces the live line. What does not fit at its end is left out, word by word.
func (s *screen) draw(words []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.midLine || !s.free() {
		s.eraseLocked()
		return
	}
	columns, _ := cli.TerminalSize(s.stderr)
	line := cli.Fit(words, liveSeparator, max(0, columns-1))
	s.write("\r" + line + "\x1b[K\r")
	s.drawn = true
}

// free reports whether the terminal of the command is in its initial modes, canonical with echo, and we are not a
// background job of a shell that uses our terminal.
func (s *screen) free() bool {
	if file, ok := s.stderr.(*os.File); ok && !foreground(file) {
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

// clear erases the live line.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLocked()
}

// follow shows the resource usage of the task until ctx or the task ends: as a live line on a terminal, otherwise as a
// plain line every report interval. progress, if it is not empty, begins each line.
func (s *screen) follow(ctx context.Context, stats statsOf, o *runOptions, progress string) {
	if s.silent || o.live.String() == "never" {
		return
	}
	interval := cmp.Or(o.reportInterval, time.Minute)
	if s.live {
		const fastest = 500 * time.Millisecond
		interval = max(o.interval, fastest)
		defer s.clear()
		if progress != "" && !cli.IsTerminal(os.Stdout) { // else the output of a short command would be written over it
			s.draw([]string{"tacho " + progress})
		}
	}
	select {
	case <-time.After(worthShowing):
		s.showStats(ctx, stats, interval, progress)
	case <-ctx.Done():
	}
}

// worthShowing is how long a command runs before anything of it is shown: there is no usage before a second sample,
// and one that has ended by then is spared the stream.
const worthShowing = 100 * time.Millisecond

// statsOf begins a stream of samples of a task.
type statsOf func(ctx context.Context, interval time.Duration) (next func() (*procstats.Sample, error), err error)

// statsFrom are those of an executor.
func statsFrom(c *client.Client) statsOf {
	return func(ctx context.Context, interval time.Duration) (func() (*procstats.Sample, error), error) {
		stream, err := c.Stats(ctx, interval, true)
		if err != nil {
			return nil, err
		}
		return stream.Recv, nil
	}
}

// showStats draws every sample of a stream. An error of the stream ends only the live line.
func (s *screen) showStats(ctx context.Context, stats statsOf, interval time.Duration, progress string) {
	next, err := stats(ctx, interval)
	if err != nil {
		return
	}
	started := time.Now().Add(-worthShowing)
	past := procstats.History{CPUs: kernel.CPUs(kernel.HostFS())}
	for {
		sample, err := next()
		if err != nil {
			return
		}
		if past.Previous != nil {
			words := liveLine(sample, past, time.Since(started))
			if progress != "" {
				words = append([]string{progress}, words...)
			}
			if s.live {
				words[0] = "tacho " + words[0]
				s.draw(words)
			} else {
				s.note(strings.Join(words, liveSeparator))
			}
		}
		past.Previous = sample
	}
}

const liveSeparator = " · "

// liveLine returns the current resource usage of a task, the most important first.
func liveLine(sample *procstats.Sample, past procstats.History, elapsed time.Duration) []string {
	words := []string{procstats.AgeText(elapsed)}
	headlines := procstats.Headlines(sample, past)
	for _, h := range headlines {
		m, _ := procstats.Lookup(h.ID)
		name, shown := map[procstats.ID]string{
			procstats.HeadlineCores: "", procstats.HeadlineMemory: "memory ", procstats.HeadlineMemoryPeak: "peak ",
			procstats.HeadlineSwap: "swapped ", procstats.HeadlineHugetlb: "huge pages ", procstats.HeadlineIORead: "read ",
		}[h.ID]
		if value, ok := h.Reading.Number(); ok && shown {
			words = append(words, name+m.Unit.Text(value))
		}
	}
	if written := procstats.WrittenOf(sample, headlines).Short(); written != "" {
		words = append(words, written)
	}
	if processes, ok := sample.Task.Number(procstats.CgroupPidsCurrent); ok {
		words = append(words, procstats.Counted(processes, "thread", "threads"))
	}
	return words
}
