// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// everyByte is each byte there is, many times over: more than a pipe holds.
func everyByte() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return bytes.Repeat(all, 4096)
}

// TestRunPassesStreams checks that what the command reads and writes goes through as it is.
func TestRunPassesStreams(t *testing.T) {
	for _, flags := range [][]string{nil, {"--no-files"}, {"--capture", "stdout,stderr"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			place := newPlace(t, rig.Self())
			input := everyByte()
			cmd := shell(t, place, "tee /dev/stderr", flags...)
			var stdout, stderr bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &stdout, &stderr
			cmd.WaitDelay = time.Second
			testkit.Must(t, cmd.Run())
			if !bytes.Equal(stdout.Bytes(), input) {
				t.Errorf("stdout has %d bytes, want the %d of stdin", stdout.Len(), len(input))
			}
			// Behind the command's own, tacho's summary.
			if !bytes.HasPrefix(stderr.Bytes(), input) {
				t.Errorf("stderr has %d bytes and does not begin with the %d of the command", stderr.Len(), len(input))
			}
			if len(flags) > 0 && flags[0] == "--capture" {
				captured(t, place, input)
			}
			if len(flags) > 0 && flags[0] == "--no-files" {
				if _, err := os.Stat(place.Out); err == nil {
					t.Error("files were written with --no-files")
				}
			}
		})
	}
}

// captured checks that both streams are in files of the run as well.
func captured(t *testing.T, place *spot, want []byte) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(place.TheRun(t).Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Equal(data, want) {
			found++
		}
		return err
	})
	testkit.Must(t, err)
	testkit.Equal(t, found, 2, "files of the run that hold a stream")
}

// TestRunGivesItsOwnDescriptors checks that nothing stands between the command and the files of its caller.
func TestRunGivesItsOwnDescriptors(t *testing.T) {
	place := newPlace(t, rig.Self())
	file := testkit.Value(os.Create(place.Path("output")))(t)
	defer file.Close()
	cmd := shell(t, place, "readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = file, file, file
	testkit.Must(t, cmd.Run())
	data := testkit.Value(os.ReadFile(file.Name()))(t)
	if want := strings.Repeat(file.Name()+"\n", 3); !strings.HasPrefix(string(data), want) {
		t.Errorf("the command's descriptors are\n%s\nwant first\n%s", data, want)
	}
}

// TestRunKeepsWhatSurroundsIt checks the folder, the environment and the arguments that the command sees.
func TestRunKeepsWhatSurroundsIt(t *testing.T) {
	needShell(t)
	place := newPlace(t, rig.Unprivileged())
	cmd := place.Run(t.Context(), "--", "/bin/sh", "-c", `pwd; id -u; umask; env | sort; printf '<%s>' "$@"`, "sh", "", "a b", "--flag", "ü\n")
	out := rig.Capture(t, cmd)
	bare := place.Command(t.Context(), "/bin/sh", append([]string{"-c"}, cmd.Args[len(cmd.Args)-6:]...)...)
	want := rig.Capture(t, bare)
	if out.Code != 0 || want.Code != 0 {
		t.Fatalf("exit codes %d and %d: %s", out.Code, want.Code, out.Stderr)
	}
	if out.Stdout != want.Stdout {
		t.Errorf("under tacho\n%s\nwithout\n%s", out.Stdout, want.Stdout)
	}
}

// TestRunAsAnotherUser checks that a user's command has the user's own HOME, USER and LOGNAME, and else our environment.
func TestRunAsAnotherUser(t *testing.T) {
	needShell(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can run a command as another user")
	}
	place := newPlace(t, rig.Self())
	testkit.Must(t, os.Chmod(place.Dir, 0o755))
	script := []string{"/bin/sh", "-c", "env | sort"}
	ours := rig.Capture(t, place.Command(t.Context(), script[0], script[1:]...))
	nobody := testkit.Value(user.Lookup("nobody"))(t)
	var want []string
	for line := range strings.Lines(ours.Stdout) {
		if name, _, _ := strings.Cut(line, "="); name != "HOME" && name != "USER" && name != "LOGNAME" {
			want = append(want, line)
		}
	}
	want = append(want, "HOME="+nobody.HomeDir+"\n", "USER=nobody\n", "LOGNAME=nobody\n")
	slices.Sort(want)
	out := rig.Capture(t, place.Run(t.Context(), append([]string{"--user", "nobody", "--"}, script...)...))
	got := slices.Sorted(strings.Lines(out.Stdout))
	testkit.Diff(t, "environment", want, got)
}

// TestRunLetsAReaderLeave checks that a command whose reader has left gets the SIGPIPE of its own writing.
func TestRunLetsAReaderLeave(t *testing.T) {
	needShell(t)
	place := newPlace(t, rig.Self())
	cmd := place.Command(t.Context(), "/bin/sh", "-c", `{ "$@"; echo "code $?" >&2; } | head -n 1`, "sh",
		rig.Tacho(), "run", "--output-dir", place.Out, "--", "yes")
	out := rig.Capture(t, cmd)
	if out.Stdout != "y\n" || !strings.Contains(out.Stderr, "code 141\n") {
		t.Errorf("stdout %q, stderr %q, want one y and code 141", out.Stdout, out.Stderr)
	}
}

// TestRunOutlivesItsListener checks that it costs the command nothing when nobody hears what tacho says of it.
func TestRunOutlivesItsListener(t *testing.T) {
	needShell(t)
	tests := []struct {
		name, script string
		flags        []string
	}{
		{"live line", "sleep 1; touch done; exit 3", []string{"--report-interval", "200ms", "--interval", "100ms"}},
		{"summary", "echo first; sleep 0.5; touch done; exit 3", []string{"--live", "never"}},
		{"record", "echo first; sleep 0.5; touch done; exit 3", []string{"--live", "never", "--format", "json"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			place := newPlace(t, rig.Self())
			args := append([]string{
				"-c", `{ "$@"; echo $? >code; } 2>&1 | head -n 1`, "sh", rig.Tacho(), "run",
				"--output-dir", place.Out,
			}, test.flags...)
			cmd := place.Command(t.Context(), "/bin/sh", append(args, "--", "/bin/sh", "-c", test.script)...)
			if out := rig.Capture(t, cmd); out.Code != 0 {
				t.Fatalf("exit code %d: %s", out.Code, out.Stderr)
			}
			if _, err := os.Stat(place.Path("done")); err != nil {
				t.Errorf("the command did not come to its end: %v", err)
			}
			if code, err := os.ReadFile(place.Path("code")); string(code) != "3\n" {
				t.Errorf("exit code %q, %v, want 3", code, err)
			}
		})
	}
}

// TestRunPassesDescriptorsOn checks that the command has the descriptors above 2 that tacho was given, as they were,
// and no other.
func TestRunPassesDescriptorsOn(t *testing.T) {
	place := newPlace(t, rig.Self())
	testkit.Must(t, os.WriteFile(place.Path("words"), []byte("words\n"), 0o600))
	script := `exec 3<words 4>&3 17<words 200>written
		list='cat <&3; echo more >/dev/fd/200; for fd in /proc/$$/fd/*; do echo ${fd##*/} $(readlink $fd); done | grep -v pipe:'
		"$@" -- /bin/sh -c "$list"
		cat <("$@" -- echo substituted)
		"$@" -- cat <(echo read)`
	args := []string{"-c", script, "sh", rig.Tacho(), "run", "--summary", "none", "--output-dir", place.Out}
	out := rig.Capture(t, place.Command(t.Context(), needBash(t), args...))
	want := "words\n"
	for _, fd := range []string{"17", "200", "3", "4"} {
		name := "words"
		if fd == "200" {
			name = "written"
		}
		want += fd + " " + place.Path(name) + "\n"
	}
	want += "substituted\nread\n"
	lines := strings.SplitAfter(out.Stdout, "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool {
		// What the shell has closed by the time of the readlink is nobody's.
		_, err := strconv.Atoi(strings.TrimSpace(line))
		return err == nil || strings.HasSuffix(line, "/dev/null\n")
	})
	if got := strings.Join(lines, ""); got != want || out.Stderr != "" {
		t.Errorf("it says\n%s%s\nwant\n%s", got, out.Stderr, want)
	}
}

// TestRunHoldsNoDescriptor checks that the reader of what the command was given comes to its end although tacho and
// the executor still run, also where the command is left running.
func TestRunHoldsNoDescriptor(t *testing.T) {
	for _, flags := range [][]string{nil, {"--detach"}} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			place := newPlace(t, rig.Self())
			testkit.Must(t, unix.Mkfifo(place.Path("go"), 0o600))
			signal, err := os.OpenFile(place.Path("go"), os.O_RDWR, 0) // which waits for no reader
			testkit.Must(t, err)
			defer signal.Close()
			reader, writer, err := os.Pipe()
			testkit.Must(t, err)
			defer reader.Close()
			cmd := shell(t, place, "echo word >&3; exec 3>&-; read -r x <go", flags...)
			cmd.ExtraFiles = []*os.File{writer}
			err = errors.Join(cmd.Start(), writer.Close(), reader.SetReadDeadline(time.Now().Add(deadline)))
			testkit.Must(t, err)
			if text, err := io.ReadAll(reader); string(text) != "word\n" || err != nil {
				t.Errorf("read %q, %v", text, err)
			}
			if _, err := signal.WriteString("\n"); err != nil {
				t.Error(err)
			}
			testkit.NoError(t, cmd.Wait())
			rig.Eventually(t, deadline, "the run ends", func() bool { return len(place.Strays()) == 0 })
		})
	}
}
