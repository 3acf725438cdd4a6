// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestPause stops tacho run as a job of a shell, by a key and by kill(1), with the command's output elsewhere
// than at the terminal: the command stops with it, and goes on with it.
func TestPause(t *testing.T) {
	tests := []struct {
		name, redirection string
		key               bool
	}{{"key, redirected", ">output", true}, {"key, piped", "| cat", true}, {"signal, redirected", ">output", false}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			place := newPlace(t, rig.Self())
			c := atPrompt(t, place)
			c.Enter(t, `sh -c 'echo $$ >tacho; exec "$@"' sh `+rig.Tacho()+" run --interval 100ms --report-interval 100ms --output-dir "+place.Out+
				" -- /bin/sh -c 'echo $$ >command; exec sleep 1000' "+test.redirection+"\n")
			command := written(t, place, "command")
			c.Expect(t, " cores") // the live line: tacho follows the command
			if test.key {
				c.Enter(t, "\x1a")
			} else if err := unix.Kill(written(t, place, "tacho"), unix.SIGTSTP); err != nil {
				t.Fatal(err)
			}
			c.Expect(t, "Stopped", "outer> ")
			rig.Eventually(t, deadline, "the command is stopped", func() bool { return state(t, command) == 'T' })
			c.Enter(t, "fg\n")
			rig.Eventually(t, deadline, "the command goes on", func() bool { return state(t, command) == 'S' })
			c.Enter(t, "\x03")
			c.Expect(t, "outer> ")
			c.Enter(t, "echo \"code ${PIPESTATUS[0]}\"; exit\n")
			c.Expect(t, "code 130\r\n")
			c.Wait(t)
		})
	}
}

// written waits for a number in a file.
func written(t *testing.T, place *spot, name string) (number int) {
	t.Helper()
	rig.Eventually(t, deadline, name+" is written", func() bool {
		text, err := os.ReadFile(place.Path(name))
		if err != nil {
			return false
		}
		number, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return number
}

// state is that of a process, proc_pid_stat(5).
func state(t *testing.T, pid int) byte {
	t.Helper()
	text := testkit.Value(os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"))(t)
	_, after, _ := bytes.Cut(text, []byte(") "))
	return after[0]
}
