// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestTerminalUnreadInput types more than the command's terminal takes at a command that reads none of it.
func TestTerminalUnreadInput(t *testing.T) {
	place := newPlace(t, rig.Self())
	c := rig.OpenConsole(t, shell(t, place, "echo ready; sleep 1; exit 5"))
	c.Expect(t, "ready\r\n")
	const full = 300 * time.Millisecond // our own terminal takes no more either once tacho does not read
	testkit.Must(t, c.Terminal.SetWriteDeadline(time.Now().Add(full)))
	line := strings.Repeat("x", 1000) + "\n"
	if _, err := c.Terminal.WriteString(strings.Repeat(line, 30)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	c.Exits(t, 5)
}

// TestTerminalHeldByAnother holds that tacho ends with its command, and shows all that it wrote, where somebody else
// has its terminal open.
func TestTerminalHeldByAnother(t *testing.T) {
	place := newPlace(t, rig.Self())
	c := rig.OpenConsole(t, shell(t, place, "tty >name; echo ready; read -r go; seq 20000; exit 5"))
	c.Expect(t, "ready\r\n")
	name := testkit.Value(os.ReadFile(place.Path("name")))(t)
	holder := testkit.Value(os.OpenFile(strings.TrimSpace(string(name)), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	defer holder.Close()
	c.Enter(t, "go\n")
	c.Expect(t, "20000\r\n")
	c.Exits(t, 5)
}

// TestTerminalCapture checks that a stream captured at a terminal is in its file, alone, and both stay terminals.
func TestTerminalCapture(t *testing.T) {
	const script = `test -t 1 && test -t 2 && stty size <&2; echo out; echo err >/dev/stderr; exit 5`
	tests := []struct {
		flag  string
		files map[string]string
	}{
		{"stdout", map[string]string{"stdout": "30 100\r\nout\r\n"}},
		{"stderr", map[string]string{"stderr": "err\r\n"}},
		{"stdout,stderr", map[string]string{"stdout": "30 100\r\nout\r\n", "stderr": "err\r\n"}},
	}
	for _, test := range tests {
		for _, user := range [][]string{nil, {"--user", "nobody"}} {
			t.Run(strings.Join(append(user, test.flag), " "), func(t *testing.T) {
				if user != nil && os.Geteuid() != 0 {
					t.Skip("only root can run a command as another user")
				}
				place := newPlace(t, rig.Self())
				testkit.Must(t, os.Chmod(place.Dir, 0o755))
				c := rig.OpenConsole(t, shell(t, place, script, append(user, "--capture", test.flag)...))
				c.Exits(t, 5)
				if text := c.Text(); !strings.Contains(text, "out\r\n") || !strings.Contains(text, "err\r\n") {
					t.Errorf("the terminal shows %q", text)
				}
				for _, name := range []string{"stdout", "stderr"} {
					text, err := os.ReadFile(filepath.Join(place.TheRun(t).Dir, name))
					if want, captured := test.files[name]; string(text) != want || captured != (err == nil) {
						t.Errorf("%s is %q, %v, want %q", name, text, err, want)
					}
				}
			})
		}
	}
}

// TestTerminalLines checks that what tacho says stands on lines of its own: behind output that ends in the middle of
// one, and in a file.
func TestTerminalLines(t *testing.T) {
	needShell(t)
	place := newPlace(t, rig.Self())
	c := rig.OpenConsole(t, place.Run(t.Context(), "--", "printf", "abc"))
	c.Expect(t, "abc\r\n", "tacho:")
	c.Exits(t, 0)

	place = newPlace(t, rig.Self())
	c = rig.OpenConsole(t, place.Command(t.Context(), "/bin/sh", "-c", `"$@" 2>notes`, "sh", rig.Tacho(), "run", "--output-dir", place.Out,
		"--interval", "100ms", "--report-interval", "100ms", "--", "/bin/sh", "-c", "sleep 0.5; printf abc"))
	c.Wait(t)
	notes, err := os.ReadFile(place.Path("notes"))
	if err != nil || !strings.Contains(string(notes), "cores") || strings.Contains(string(notes), "\r") {
		t.Errorf("%v, the notes are %q", err, notes)
	}
	if strings.Contains(string(notes), "\n\n") || strings.HasPrefix(string(notes), "\n") {
		t.Errorf("an empty line in the notes: %q", notes)
	}
}
