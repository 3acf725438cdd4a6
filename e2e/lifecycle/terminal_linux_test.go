// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestTerminal checks that a command at a terminal has one: by name, for all three streams, and as /dev/tty.
func TestTerminal(t *testing.T) {
	eachMode(t, func(t *testing.T, place *spot) {
		script := `tty; test -t 0 && test -t 1 && test -t 2 && echo streams; echo controlled >/dev/tty; printf 'a\nb\n'; exit 6`
		c := rig.OpenConsole(t, shell(t, place, script))
		c.Expect(t, "/dev/pts/", "streams\r\n", "controlled\r\n")
		// Each newline is turned once into what a terminal needs.
		c.Expect(t, "a\r\nb\r\n")
		c.Exits(t, 6)
	})
}

// TestTerminalSize checks that the command knows how large the window is, and learns of it when that changes.
func TestTerminalSize(t *testing.T) {
	place := newPlace(t, rig.Self())
	c := rig.OpenConsole(t, shell(t, place,
		`stty size; trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.02; done`))
	c.Expect(t, "30 100\r\n", "ready\r\n")
	testkit.Must(t, pty.Setsize(c.Terminal, &pty.Winsize{Rows: 41, Cols: 123}))
	c.Expect(t, "41 123\r\n")
	c.Exits(t, 4)
}

// TestTerminalInterrupt types Ctrl-C at a command that answers it, and at one that does not.
func TestTerminalInterrupt(t *testing.T) {
	tests := []struct {
		name, script, says string
		key                string
		code               int
	}{
		{"trapped", "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.02; done", "interrupted\r\n", "\x03", 9},
		{"interrupt", "echo ready; exec sleep 1000", "", "\x03", 130},
		{"quit", "echo ready; exec sleep 1000", "", "\x1c", 131},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			place := newPlace(t, rig.Self())
			c := rig.OpenConsole(t, shell(t, place, test.script))
			c.Expect(t, "ready\r\n")
			c.Enter(t, test.key)
			c.Expect(t, test.says)
			if code := c.Wait(t); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
		})
	}
}

// TestTerminalInterruptIgnored types Ctrl-C three times at a command that ignores it.
func TestTerminalInterruptIgnored(t *testing.T) {
	place := newPlace(t, rig.Self())
	c := rig.OpenConsole(t, shell(t, place, "trap '' INT; echo ready; while :; do sleep 0.02; done"))
	c.Expect(t, "ready\r\n")
	c.Enter(t, "\x03\x03\x03")
	c.Expect(t, "goes on after SIGINT", "tacho stop ")
	c.Enter(t, "\x1c")
	c.Exits(t, 131)
}

// TestTerminalSeries checks that runs of a series do not wait for keys.
func TestTerminalSeries(t *testing.T) {
	needShell(t)
	place := newPlace(t, rig.Self())
	c := rig.OpenConsole(t, place.Command(t.Context(), rig.Tacho(), "run", "--output-dir", place.Out, "--runs", "2", "--",
		"/bin/sh", "-c", "test -t 1 && wc -c"))
	c.Expect(t, "0\r\n0\r\n", "2 runs of ")
	c.Exits(t, 0)
}

// TestTerminalBenchmark holds that the terminal shows which run it is, and types Ctrl-C at the second round.
func TestTerminalBenchmark(t *testing.T) {
	needShell(t)
	place := newPlace(t, rig.Self())
	script := rig.Tacho() + " run --output-dir " + place.Out + ` --runs 3 --name A --name B -- sleep 0.3 --- sh -c '
		test ! -e second || sleep 60; touch second' >/dev/null`
	c := rig.OpenConsole(t, place.Command(t.Context(), "/bin/sh", "-c", script))
	c.Expect(t, "tacho run 1 of 3 of A", "tacho run 1 of 3 of B", "tacho run 2 of 3 of A", "tacho run 2 of 3 of B")
	c.Enter(t, "\x03")
	c.Expect(t, "run 2 of 3 of B: ", "2 of 3 runs of each of 2 commands", "wall_seconds", "A", "B", "  tacho compare ",
		"stopped in run 2 of 3 of B by signal: interrupt; completed runs are kept")
	c.Exits(t, 130)
}

// TestTerminalEnd types Ctrl-D at a command that reads.
func TestTerminalEnd(t *testing.T) {
	place := newPlace(t, rig.Self())
	c := rig.OpenConsole(t, shell(t, place, `echo ready; n=$(cat | wc -c); echo "read $n"`))
	c.Expect(t, "ready\r\n")
	c.Enter(t, "hello\n\x04")
	c.Expect(t, "read 6\r\n")
	c.Exits(t, 0)
}

// TestTerminalPassword checks that what is typed while echo is off is not shown.
func TestTerminalPassword(t *testing.T) {
	place := newPlace(t, rig.Self())
	c := rig.OpenConsole(t, shell(t, place,
		`stty -echo; printf 'Password: '; read -r p </dev/tty; stty echo; echo; [ "$p" = sesame ] && echo open`))
	c.Expect(t, "Password: ")
	c.Enter(t, "sesame\n")
	c.Expect(t, "open\r\n")
	c.Exits(t, 0)
	if strings.Contains(c.Text(), "sesame") {
		t.Errorf("the password was shown:\n%q", c.Text())
	}
}

// TestTerminalIsPutBack checks that the terminal has its settings again after every kind of end.
func TestTerminalIsPutBack(t *testing.T) {
	needShell(t)
	tests := []struct{ name, script, says string }{
		{"exit", "stty raw -echo; exit 3", "code 3\r\n"},
		{"killed", "stty raw -echo; kill -KILL $$", "code 137\r\n"},
		// The parent of tacho's command line is the shell; tacho itself is told to end.
		{"terminated", "stty raw -echo; read -r pid <pid; kill -TERM $pid; exec sleep 1000", "code 143\r\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			place := newPlace(t, rig.Self())
			// The shell around it holds the terminal open while we look; the one in between becomes tacho.
			outer := `before=$(stty -g); sh -c 'echo $$ >pid; exec "$@"' sh "$@"; code=$?
				[ "$before" = "$(stty -g)" ] && echo same settings; echo "code $code"`
			c := rig.OpenConsole(t, place.Command(t.Context(), "/bin/sh", "-c", outer, "sh",
				rig.Tacho(), "run", "--output-dir", place.Out, "--", "/bin/sh", "-c", test.script))
			c.Expect(t, "same settings\r\n", test.says)
			c.Wait(t)
		})
	}
}

// TestTerminalJobControl runs a shell under tacho and stops and continues a job in it.
func TestTerminalJobControl(t *testing.T) {
	place := newPlace(t, rig.Self())
	c := rig.OpenConsole(t, place.Run(t.Context(), "--", needBash(t), "--norc", "--noprofile", "-i"))
	// The echo of the line does not look like the prompt.
	c.Enter(t, "PS1='inn''er> '\n")
	c.Expect(t, "inner> ")
	c.Enter(t, "sleep 1000\n")
	c.Expect(t, "sleep 1000\r\n")
	foreground(t, place, "sleep 1000")
	c.Enter(t, "\x1a")
	c.Expect(t, "Stopped", "inner> ")
	c.Enter(t, "jobs -r; bg; jobs -r | wc -l\n")
	c.Expect(t, "\r\n1\r\n")
	c.Enter(t, "fg\n")
	c.Expect(t, "sleep 1000\r\n")
	c.Enter(t, "\x03")
	c.Expect(t, "inner> ")
	c.Enter(t, "exit 11\n")
	c.Exits(t, 11)
}

// TestTerminalSuspend stops tacho run itself from the shell that it was called in, as any other command.
func TestTerminalSuspend(t *testing.T) {
	place := newPlace(t, rig.Self())
	c := atPrompt(t, place)
	c.Enter(t, rig.Tacho()+" run --output-dir "+place.Out+" -- /bin/sh -c 'echo ready; read x; echo \"got $x\"; exit 12'\n")
	c.Expect(t, "ready\r\n")
	c.Enter(t, "\x1a")
	c.Expect(t, "Stopped", "outer> ")
	c.Enter(t, "echo betw''een\n")
	c.Expect(t, "between\r\n")
	c.Enter(t, "fg\n")
	c.Expect(t, "run --output-dir")
	c.Enter(t, "later\n")
	c.Expect(t, "got later\r\n", "outer> ")
	c.Enter(t, "echo \"code $?\"; exit\n")
	c.Expect(t, "code 12\r\n")
	c.Wait(t)
}

// TestTerminalBackground starts tacho run as a background job, which leaves the terminal to the shell until it is
// called.
func TestTerminalBackground(t *testing.T) {
	place := newPlace(t, rig.Self())
	c := atPrompt(t, place)
	c.Enter(t, rig.Tacho()+" run --interval 100ms --output-dir "+place.Out+
		" -- /bin/sh -c 'stty -a >modes; echo ready; read x; echo \"got $x\"; exit 12' &\n")
	c.Expect(t, "ready\r")
	modes, err := os.ReadFile(place.Path("modes"))
	if err != nil || !strings.Contains(string(modes), " icanon ") || !strings.Contains(string(modes), " echo ") {
		t.Errorf("the command's terminal is not set up for lines: %v %s", err, modes)
	}
	c.Enter(t, "echo \"jobs $(jobs -r | wc -l)\"\n")
	c.Expect(t, "jobs 1\r\n", "outer> ")
	c.Enter(t, "fg\n")
	c.Expect(t, "run --interval")
	c.Enter(t, "later\n")
	c.Expect(t, "got later\r\n", "outer> ")
	c.Enter(t, "echo \"code $?\"; exit\n")
	c.Expect(t, "code 12\r\n")
	c.Wait(t)
}

// TestTerminalSentToBackground stops tacho run and lets it go on in the background, to its end and as a foreground
// job.
func TestTerminalSentToBackground(t *testing.T) {
	tests := []struct{ name, then string }{{"ends there", "wait %1"}, {"comes back", "fg %1"}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			place := newPlace(t, rig.Self())
			for _, name := range []string{"go", "end"} {
				testkit.Must(t, unix.Mkfifo(place.Path(name), 0o600))
			}
			c := atPrompt(t, place)
			c.Enter(t, rig.Tacho()+" run --output-dir "+place.Out+
				" -- /bin/sh -c 'echo ready; read x <go; : >gone; read x <end; exit 4'\n")
			c.Expect(t, "ready\r\n")
			c.Enter(t, "\x1a")
			c.Expect(t, "Stopped", "outer> ")
			c.Enter(t, "bg; echo >go\n")
			rig.Eventually(t, deadline, "the command goes on", func() bool {
				_, err := os.Stat(place.Path("gone"))
				return err == nil
			})
			c.Enter(t, "(sleep 0.5; echo >end) & "+test.then+"; echo \"code $?\"; exit\n")
			c.Expect(t, "code 4\r\n")
			c.Wait(t)
		})
	}
}

// atPrompt is an interactive shell that waits for a line.
func atPrompt(t *testing.T, place *spot) *rig.Console {
	t.Helper()
	c := rig.OpenConsole(t, place.Command(t.Context(), needBash(t), "--norc", "--noprofile", "-i"))
	c.Enter(t, "PS1='out''er> '\n")
	c.Expect(t, "outer> ")
	return c
}

// TestTerminalOnlyWhereThereIsOne checks that a stream that is no terminal does not become one.
func TestTerminalOnlyWhereThereIsOne(t *testing.T) {
	needShell(t)
	place := newPlace(t, rig.Self())
	c := rig.OpenConsole(t, place.Command(t.Context(), "/bin/sh", "-c", `"$@" | cat`, "sh",
		rig.Tacho(), "run", "--output-dir", place.Out, "--", "/bin/sh", "-c",
		`test -t 1 || echo "no terminal"; readlink /proc/$$/fd/1; printf 'a\tb\n' | od -c | head -n 1`))
	c.Expect(t, "no terminal\r\n", "pipe:[")
	c.Exits(t, 0)
}

// TestTerminalGoesAway closes the window: the command gets the SIGHUP, and nothing is left.
func TestTerminalGoesAway(t *testing.T) {
	place := newPlace(t, rig.Self())
	c := rig.OpenConsole(t, shell(t, place, `trap 'echo hung up >hup; exit 1' HUP; echo ready; while :; do sleep 0.02; done`))
	c.Expect(t, "ready\r\n")
	c.Terminal.Close()
	c.Wait(t)
	gone(t, place)
	if _, err := os.Stat(place.Path("hup")); err != nil {
		t.Errorf("the command was not told: %v", err)
	}
}

func needBash(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("job control needs a shell that has it: %v", err)
	}
	return path
}

// foreground waits until a command of the place runs.
func foreground(t *testing.T, place *spot, command string) {
	t.Helper()
	rig.Eventually(t, deadline, command+" runs", func() bool {
		for _, stray := range place.Strays() {
			if stray.Command == command {
				return true
			}
		}
		return false
	})
}
