// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
)

// Control sequences for the alternate screen without a cursor, and back.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// polled is the outcome of one poll.
type polled struct {
	rows    []*topRow
	machine *client.NodeStats
	err     error
}

// topLoop runs tacho top on a terminal.
type topLoop struct {
	model *topModel
	poll  *taskPoll
	out   io.Writer
	// keys gets what the terminal sends, said what an action did.
	keys chan []byte
	said chan string
	// results gets the outcome of a poll; while one runs, again says whether another follows.
	results        chan polled
	polling, again bool
	work           sync.WaitGroup
}

// runTopScreen shows the model on a terminal until a key or ctx ends it, and restores the terminal.
func runTopScreen(ctx context.Context, m *topModel, poll *taskPoll, stdin io.Reader, stdout io.Writer) (err error) {
	// Before the screen changes, so that an error is printed in one line.
	rows, err := poll.read(ctx, "", false)
	if err != nil {
		return err
	}
	m.none = poll.none
	m.update(rows, nil)
	restore, err := rawTerminal(stdin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	if _, err := io.WriteString(stdout, enterScreen); err != nil {
		return err
	}
	defer func() {
		_, leaveErr := io.WriteString(stdout, leaveScreen)
		err = errors.Join(err, leaveErr)
	}()
	ctx, cancel := context.WithCancel(ctx)
	l := &topLoop{
		model: m, poll: poll, out: stdout, keys: make(chan []byte), said: make(chan string), results: make(chan polled, 1),
	}
	go l.readKeys(ctx, stdin)
	err = l.run(ctx)
	cancel()
	l.work.Wait()
	return err
}

// readKeys sends keys until the keyboard is closed, or ctx ends. A read cannot be interrupted: it may end only with the
// process, which exits next.
func (l *topLoop) readKeys(ctx context.Context, keyboard io.Reader) {
	buffer := make([]byte, 256)
	for {
		n, err := keyboard.Read(buffer)
		text := slices.Clone(buffer[:n])
		if err != nil {
			text = []byte("\x03") // a closed terminal is treated as Ctrl-C
		}
		select {
		case l.keys <- text:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (l *topLoop) run(ctx context.Context) error {
	resized := make(chan os.Signal, 1)
	defer notifyResize(resized)()
	timer := time.NewTimer(l.model.delay)
	defer timer.Stop()
	for {
		if err := l.draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case <-timer.C:
			l.pollNow(ctx)
		case p := <-l.results:
			l.model.machine, l.model.none = p.machine, l.poll.none
			l.model.update(p.rows, p.err)
			timer.Reset(l.model.delay)
			if l.polling = false; l.again {
				l.pollNow(ctx)
			}
		case l.model.said = <-l.said:
			l.pollNow(ctx)
		case text := <-l.keys:
			for _, k := range parseKeys(text) {
				switch action := l.model.press(k); action {
				case topQuit:
					return nil
				case topRefresh:
					l.pollNow(ctx)
				case topRestart, topStop:
					l.act(ctx, action)
				case topShell:
					l.model.said = l.shell(ctx)
				case topNothing:
				}
			}
		}
	}
}

// pollNow polls the agent, once more if it is being polled.
func (l *topLoop) pollNow(ctx context.Context) {
	if l.again = l.polling; l.polling {
		return
	}
	l.polling = true
	opened, logs := l.model.opened(), l.model.logs
	l.work.Go(func() {
		rows, err := l.poll.read(ctx, opened, logs)
		p := polled{rows: rows, err: err}
		if stats, err := l.poll.agent.NodeStats(ctx); err == nil { // otherwise there are no meters
			p.machine = &stats.Value
		}
		l.results <- p
	})
}

// act restarts or stops the selected task, and says so when that is done.
func (l *topLoop) act(ctx context.Context, action topAction) {
	row, _ := l.model.chosen()
	if row == nil {
		return
	}
	l.work.Go(func() {
		said, err := "restarted "+row.title(), error(nil)
		if action == topStop {
			said, err = "stopping "+row.title(), l.poll.agent.StopAllocation(ctx, row.Alloc)
		} else {
			err = l.poll.agent.RestartAllocation(ctx, row.Alloc, row.Task)
		}
		if err != nil {
			said = cli.OneLine(explain(err).Error())
		}
		select {
		case l.said <- said:
		case <-ctx.Done():
		}
	})
}

// shell runs a shell beside the selected task, and returns how that ended. It gets all keys until then.
func (l *topLoop) shell(ctx context.Context) (said string) {
	row, _ := l.model.chosen()
	if row == nil {
		return ""
	}
	o := client.ExecOptions{Task: row.Task, Command: []string{"/bin/sh"}, TTY: true}
	running, err := l.poll.agent.Exec(ctx, row.Alloc, o)
	if err != nil {
		return cli.OneLine(explain(err).Error())
	}
	_, _ = io.WriteString(l.out, leaveScreen) // draw returns the error
	defer func() { _, _ = io.WriteString(l.out, enterScreen) }()
	defer followSize(running, l.out)()
	ended := make(chan string, 1)
	l.work.Go(func() {
		code, err := copyExec(running, l.out, l.out)
		if err != nil {
			ended <- cli.OneLine(err.Error())
			return
		}
		ended <- fmt.Sprintf("the shell ended with exit code %d", code)
	})
	defer running.Close()
	for {
		select {
		case said = <-ended:
			return said
		case <-ctx.Done():
			return ""
		case text := <-l.keys:
			_, _ = running.Write(text) // an error of the connection is returned by Recv, too
		}
	}
}

// draw writes the whole screen in one write, without erasing it first: it does not flicker.
func (l *topLoop) draw() error {
	columns, lines := cli.TerminalSize(l.out)
	if columns == 0 || lines == 0 {
		columns, lines = 80, 24
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range l.model.view(columns, lines) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	_, err := io.WriteString(l.out, b.String())
	return err
}

// namedKeys maps what terminals send for keys without a rune, xterm's sequences.
func namedKeys() map[string]string {
	return map[string]string{
		"\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down", "\x1b[5~": "page up", "\x1b[6~": "page down",
		"\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home", "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end",
		"\x1b": "esc", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\x03": "ctrl-c",
		"\x0c": "ctrl-l",
	}
}

// keySequence matches one key: an escape sequence (ECMA-48, 5.4), which may be cut off, or a rune.
const keySequence = `(?s)\x1b\[[^@-~]*[@-~]?|\x1bO.?|.`

// parseKeys parses the keys in one read of a terminal. Unknown sequences are skipped.
func parseKeys(text []byte) (keys []key) {
	named := namedKeys()
	for _, sequence := range regexp.MustCompile(keySequence).FindAll(text, -1) {
		if name, ok := named[string(sequence)]; ok {
			keys = append(keys, key{name: name})
		} else if r, size := utf8.DecodeRune(sequence); size == len(sequence) && r >= ' ' && r != utf8.RuneError {
			keys = append(keys, key{r: r})
		}
	}
	return keys
}
