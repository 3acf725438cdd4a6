// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

// patience is how long anything may take that is expected to happen at all.
const patience = 30 * time.Second

// tachoProcess is a process of tacho, which is killed if it takes too long.
func tachoProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = append([]string{"tacho"}, args...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	return cmd
}

// tachoRun is tacho run with the folder of runs that it is given.
func tachoRun(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	return tachoProcess(t, append([]string{"run", "--summary", "none", "--output-dir", dir}, args...)...)
}

// TestCaptureOnAFullDisk holds that a copy that cannot be written costs the command nothing: neither its life nor its
// output.
func TestCaptureOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
	const size = 1 << 20
	cmd := tachoRun(t, dir, "--capture", "stdout", "--", "sh", "-c", fmt.Sprintf("head -c %d /dev/zero && exit 7", size))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if codeOf(err) != "7" || out.Len() != size {
		t.Errorf("exit code %s and %d bytes, want 7 and %d; it said: %s", codeOf(err), out.Len(), size, said.String())
	}
	if n := strings.Count(said.String(), "capture: "); n != 1 {
		t.Errorf("it said %d times that the copy is not whole, want once: %s", n, said.String())
	}
}

// TestCaptureHeldByAnother holds that tacho ends with its command, and passes on all that it wrote, if another process
// has its output open; also to a reader that begins when the command and the second after it are over.
func TestCaptureHeldByAnother(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]time.Duration{"read at once": 0, "read late": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heldByAnother(t, late)
		})
	}
}

func heldByAnother(t *testing.T, late time.Duration) {
	const size = 100_000 // more than one pipe takes, less than two
	script := fmt.Sprintf(`echo $$; read go; head -c %d /dev/zero`, size)
	cmd := tachoRun(t, t.TempDir(), "--capture", "stdout", "--", "sh", "-c", script)
	cmd.Stderr = os.Stderr
	in := testkit.Value(cmd.StdinPipe())(t)
	out := testkit.Value(cmd.StdoutPipe())(t)
	must(t, cmd.Start())
	lines := bufio.NewReader(out)
	pid := testkit.Value(lines.ReadString('\n'))(t)
	holder := testkit.Value(os.OpenFile("/proc/"+strings.TrimSpace(pid)+"/fd/1", os.O_WRONLY, 0))(t)
	defer holder.Close()
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	<-time.After(late)
	rest, err := io.ReadAll(lines)
	if err != nil || len(rest) != size {
		t.Errorf("%d bytes, %v, want %d", len(rest), err, size)
	}
	must(t, cmd.Wait())
}
