// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"

	"github.com/tachograph/tacho/internal/command"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestTopScreens presses the keys of tacho top on terminals of four widths: testdata/top.txt has what they show.
func TestTopScreens(t *testing.T) {
	const golden = "testdata/top.txt"
	t.Setenv("TZ", "UTC")
	t.Setenv("NO_COLOR", "1")
	content := testkit.Value(os.ReadFile(golden))(t)
	want := make(map[string]string)
	for _, section := range strings.Split(string(content), "-- ")[1:] {
		title, text, _ := strings.Cut(section, " --\n")
		want[title] = text
	}
	var got strings.Builder
	for _, columns := range []uint16{60, 80, 120, 200} {
		agent := httptest.NewServer(newFakeAgent(t, ""))
		top := startTop(t, columns, agent.URL)
		top.await(1, screenLimit)
		// After esc a key of its own must be waited for: together they are another key.
		for _, step := range []struct{ name, keys string }{
			{"started", " "},
			{"m: by memory", "m"},
			{"r: reversed", "r"},
			{"c: by CPU", "c"},
			{"/chu: a filter", "/chu"},
			{"enter: applied", "\r"},
			{"enter: the processes", "\r"},
			{"esc: all tasks that match", "\x1b"},
			{"esc: all tasks", "\x1b"},
			{"down: another task", "j"},
			{"l: its output", "l"},
			{"esc: all tasks again", "\x1b"},
			{"R: asks", "R"},
			{"y: restarted", "y"},
			{"x: asks", "x"},
			{"y: a shell", "y"},
			{"ctrl-d: back", "\x04"},
			{"h: help", "h"},
		} {
			top.press(t, step.keys)
			if strings.HasSuffix(step.name, "a shell") { // it has no frame
				top.until(screenLimit, func() bool { return strings.Contains(top.text(), "\x1b[?1049l") })
			}
			title := fmt.Sprintf("%d columns, %s", columns, step.name)
			frame := top.settle(want[title])
			fmt.Fprintf(&got, "-- %s --\n%s", title, frame)
			for line := range strings.Lines(frame) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > int(columns) {
					t.Errorf("%s: a line of %d: %q", title, n, line)
				}
			}
		}
		top.quit(t)
		agent.Close()
	}
	compareGolden(t, golden, got.String())
}

// screenLimit is how long a screen may take, screenPause how long one stands that is written to the golden file.
const (
	screenLimit = 10 * time.Second
	screenPause = 500 * time.Millisecond
)

// topSession is a tacho top with somebody at the keys.
type topSession struct {
	master interface {
		Write([]byte) (int, error)
		Close() error
	}
	ended chan int
	drawn chan struct{} // gets a value, unless it has one, when something was written

	mu      sync.Mutex // guards following
	written string
}

func startTop(t *testing.T, columns uint16, address string) *topSession {
	t.Helper()
	master, terminal, err := pty.Open()
	must(t, err)
	must(t, pty.Setsize(terminal, &pty.Winsize{Rows: 16, Cols: columns}))
	s := &topSession{master: master, ended: make(chan int, 1), drawn: make(chan struct{}, 1)}
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := master.Read(buffer)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.written += string(buffer[:n])
			s.mu.Unlock()
			select {
			case s.drawn <- struct{}{}:
			default:
			}
		}
	}()
	go func() {
		args := []string{"top", "--delay", "60s", "--addr", address}
		s.ended <- command.Execute(context.Background(), args, terminal, terminal, terminal)
		_ = terminal.Close()
	}()
	return s
}

const endOfFrame = "\x1b[J"

// await waits until that many frames were drawn, but not longer than the limit.
func (s *topSession) await(frames int, limit time.Duration) {
	s.until(limit, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Count(s.written, endOfFrame) >= frames
	})
}

// settle waits until the last frame is the one that is wanted, and returns it; after the limit, whatever it is. Readings that
// come draw frames of their own: their number says nothing.
func (s *topSession) settle(want string) string {
	limit := screenLimit
	if *update {
		limit = screenPause
	}
	s.until(limit, func() bool { return !*update && s.frame() == want })
	return s.frame()
}

func (s *topSession) until(limit time.Duration, reached func() bool) {
	late := time.After(limit)
	for !reached() {
		select {
		case <-s.drawn:
		case <-late:
			return
		}
	}
}

func (s *topSession) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := s.master.Write([]byte(keys)); err != nil {
		t.Fatal(err)
	}
}

var (
	sequences = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")
	clock     = regexp.MustCompile(`\d\d:\d\d:\d\d`)
)

func (s *topSession) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// frame returns the last frame as a reader sees it.
func (s *topSession) frame() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Split(s.written, endOfFrame)
	_, text, _ := strings.Cut(all[len(all)-2], "\x1b[H")
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\r\n") {
		line = clock.ReplaceAllString(sequences.ReplaceAllString(line, ""), "10:00:00")
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

func (s *topSession) quit(t *testing.T) {
	t.Helper()
	if _, err := s.master.Write([]byte("qq")); err != nil { // from the page of keys, and from top
		t.Fatal(err)
	}
	testkit.Equal(t, <-s.ended, 0, "exit code")
	_ = s.master.Close()
}
