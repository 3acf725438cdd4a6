// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRunWithoutTemporaryDirectory holds that a command runs whatever the variables for directories say, for a user
// without /run/tacho.
func TestRunWithoutTemporaryDirectory(t *testing.T) {
	t.Parallel()
	long := filepath.Join(shortDir(t), strings.Repeat("x", 107))
	must(t, os.Mkdir(long, 0o700))
	for what, dir := range map[string]string{
		"missing": "/nowhere", "relative": "run", "too long": long, "a file": "/etc/passwd", "procfs": "/proc",
	} {
		for _, variable := range []string{"XDG_RUNTIME_DIR", "TMPDIR"} {
			u := user{dir: t.TempDir(), stranger: true, env: []string{"XDG_RUNTIME_DIR=", variable + "=" + dir}}
			code, out, said := u.tacho(t, "run", "--no-files", "--quiet", "--cgroup", "none", "--", "echo", "runs")
			if code != "0" || out != "runs\n" || said != "" {
				t.Errorf("%s %s: exit code %s, %q, %q", variable, what, code, out, said)
			}
		}
	}
}

// TestRunWithoutRuntimeDir holds that a command runs, unrecorded, if all directories are read-only, unless it was to
// run in a way that needs an executor. A directory that --runtime-dir names has to do.
func TestRunWithoutRuntimeDir(t *testing.T) {
	t.Parallel()
	const readOnly = `for d in /run /tmp /var/tmp; do mount --bind $d $d && mount -o remount,bind,ro $d || exit 99; done; exec "$@"`
	const unrecorded = "tacho: the command runs without any record: no directory for the sockets of executors: "
	shm, err := os.MkdirTemp("/dev/shm", "t")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(shm)) })
	for _, test := range []struct{ flags, command, code, out, said string }{
		{"", "echo $0", "0", "sh\n", unrecorded},
		{"", "kill -9 $$", "-1", "", unrecorded},
		{"", "exit 7", "7", "", unrecorded},
		{"--input /etc/passwd", "head -c 5", "0", "root:", unrecorded},
		{"--record-file /dev/shm/never", "exit 7", "7", "", unrecorded},
		{"--timeout 1s --user root", "true", "125", "", "tacho: --timeout and --user: not possible without an executor: no directory"},
		{"--memory 100M", "true", "125", "", "tacho: a limit: not possible without an executor: no directory"},
		{"--detach", "true", "125", "", "tacho: --detach: not possible"},
		{"--runtime-dir /run/mine", "true", "125", "", "tacho: --runtime-dir: no directory for the sockets of executors: mkdir /run/mine: read-only file system"},
		{"--runtime-dir mine", "true", "125", "", `tacho: --runtime-dir: no directory for the sockets of executors: "mine" is not an absolute path`},
		{"--runtime-dir " + shm + " --no-files", "echo $0", "0", "sh\n", ""},
	} {
		cmd := tachoProcess(t, append(append([]string{"run", "-q"}, strings.Fields(test.flags)...), "--", "sh", "-c", test.command)...)
		cmd.Args = append([]string{"sh", "-c", readOnly, "sh"}, cmd.Args...)
		cmd.Path, cmd.Dir = "/bin/sh", "/"
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR=", "TMPDIR=", "XDG_CACHE_HOME=", "HOME=/nowhere")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		err := cmd.Run()
		code := "0"
		if err != nil {
			code = codeOf(err)
		}
		if code == "99" || cmd.ProcessState == nil {
			t.Skipf("no mount namespace can be made here: %v, %s", err, &said)
		}
		if code != test.code || out.String() != test.out || !strings.HasPrefix(said.String(), test.said) ||
			strings.Count(said.String(), "\n") > 1 || said.Len() > 0 && test.said == "" {
			t.Errorf("%s %s: exit code %s, %q, %q; want %+v", test.flags, test.command, code, &out, &said, test)
		}
	}
}

// TestPlaces holds commands against places that lack something: each works, or ends before it starts anything, with a
// sentence that has the remedy.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const removed = "the working directory was removed; change to another one"
	const files = "raise it with ulimit -n 1024"
	long := "/tmp/" + strings.Repeat("x", 100)
	places := map[string]string{
		"a removed working directory": `d=$(mktemp -d) && cd "$d" && rmdir "$d"; exec "$@"`,
		"few files":                   `ulimit -n 20; exec "$@"`,
		"fewer files":                 `ulimit -n 8; exec "$@"`,
		"a descriptor above":          `ulimit -n 100; exec "$@"`,
		"an unreachable temporary":    `TMPDIR=/nowhere exec "$@"`,
	}
	config, useless := filepath.Join(t.TempDir(), "agent.hcl"), filepath.Join(t.TempDir(), "useless.hcl")
	must(t, os.WriteFile(config, []byte("data_dir = \""+long+"\"\n"), 0o600))
	must(t, os.WriteFile(useless, []byte("acl {\n token_file = \"/nowhere\"\n}\n"), 0o600))
	for _, command := range []struct {
		args string
		// starts says that the command opens files of other processes, and removed that it names a file in its directory.
		starts, removed bool
		// says is what it prints in every other place, if it is an error.
		says string
	}{
		{"run -q --no-files -- echo", true, false, ""},
		{"run -q --no-files -- /bin/true", true, false, ""},
		{"run -q --no-files --user 65534 -- true", true, false, ""},
		{"run -q --no-files -- ./none", true, false, "does not exist"},
		{"run -q -d --output-dir here -- true", true, true, ""},
		{"run -q --no-files --disk . -- true", true, true, ""},
		{"ls", false, false, ""},
		{"ls --output-dir /nowhere", false, false, ""},
		{"executors ls --data-dir /nowhere", false, false, ""},
		{"version", false, false, ""},
		{"explain memory_peak", false, false, ""},
		{"show last", false, false, "no runs in .tacho/runs (tacho run creates one; --output-dir chooses another"},
		{"agent --config /nowhere", false, false, "read configuration: stat /nowhere"},
		{"agent --data-dir here --config " + useless, true, true, "read token"},
		{"agent --data-dir " + long, false, false, "has 105 bytes; choose a path of at most 92"},
		{"agent --config " + config, false, false, "agent.hcl:1,12-119: Invalid value; data_dir has 105 bytes"},
		{"job status --data-dir " + long, false, false, "--data-dir " + long + ": the path of the socket"},
		{"events --addr unix:" + long + "/sock", false, false, "has 110 bytes; at most 107"},
	} {
		if strings.Contains(command.args, "--user") && os.Geteuid() != 0 {
			continue
		}
		for place, script := range places {
			cmd := tachoProcess(t, strings.Fields(command.args)...)
			cmd.Args = append([]string{"sh", "-c", script, "sh"}, cmd.Args...)
			cmd.Path, cmd.Dir = "/bin/sh", t.TempDir()
			if place == "a descriptor above" {
				cmd.ExtraFiles = append(make([]*os.File, 96), os.Stdin) // 99
			}
			said, err := cmd.CombinedOutput()
			want := command.says
			switch {
			case command.starts && strings.Contains(script, "ulimit"):
				want = files
			case command.removed && strings.Contains(script, "rmdir"):
				want = removed
			}
			if fails := want != ""; fails != (err != nil) || !strings.Contains(string(said), want) ||
				fails && bytes.Count(said, []byte("\n")) != 1 {
				t.Errorf("%s in %s: %v, %s; want one line with %q", command.args, place, err, said, want)
			}
			if left, _ := os.ReadDir(cmd.Dir); want != "" && len(left) > 0 {
				t.Errorf("%s in %s leaves %v", command.args, place, left)
			}
		}
	}
}
