// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
)

// withLogs is a task whose output goes to log files.
func (f *fixture) withLogs(change func(*proto.Logs)) func(*proto.LaunchRequest) {
	dir := filepath.Join(f.dir, "logs")
	must(f.t, os.MkdirAll(dir, 0o777))
	must(f.t, os.Chmod(dir, 0o777))
	logs := &proto.Logs{Dir: dir, Prefix: "web", MaxFileBytes: 1 << 20, MaxFiles: 100}
	if change != nil {
		change(logs)
	}
	return func(r *proto.LaunchRequest) { r.Stdio = &proto.Stdio{Mode: proto.Stdio_MODE_LOGS, Logs: logs} }
}

// logText is what the files of a stream have, one after the other.
func (f *fixture) logText(stream string) string {
	f.t.Helper()
	stem := filepath.Join(f.dir, "logs", "web."+stream+".")
	paths := testkit.Value(filepath.Glob(stem + "*"))(f.t)
	number := func(path string) int {
		n := testkit.Value(strconv.Atoi(strings.TrimPrefix(path, stem)))(f.t)
		return n
	}
	slices.SortFunc(paths, func(a, b string) int { return number(a) - number(b) })
	var all strings.Builder
	for _, path := range paths {
		text := testkit.Value(os.ReadFile(path))(f.t)
		all.Write(text)
	}
	return all.String()
}

func TestLogs(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.run("echo out; echo err >&2; test -t 1 || echo none; cat; ls /proc/self/fd | wc -l", place, f.withLogs(nil))
		f.wait()
		// Wait answers when the files are whole.
		testkit.Equal(t, f.logText("stdout"), "out\nnone\n4\n", "standard output")
		testkit.Equal(t, f.logText("stderr"), "err\n", "standard error")
	})
}

// A task that is started again in the same folder goes on where the one before ended.
func TestLogsContinue(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.run("seq 1 1000", f.withLogs(func(l *proto.Logs) { l.MaxFileBytes = 1000 }))
	f.wait()
	logs := filepath.Join(f.dir, "logs")
	again := start(t)
	must(t, os.Rename(logs, filepath.Join(again.dir, "logs")))
	again.run("seq 1001 2000", again.withLogs(func(l *proto.Logs) { l.MaxFileBytes = 1000 }))
	again.wait()
	if got := again.logText("stdout"); got != numbers(1, 2000) {
		t.Errorf("%d bytes in the logs of two runs, want %d", len(got), len(numbers(1, 2000)))
	}
	if paths, err := filepath.Glob(filepath.Join(again.dir, "logs", "web.stdout.*")); err != nil || len(paths) < 7 {
		t.Errorf("files %v, %v", paths, err)
	}
}

// numbers is what seq writes.
func numbers(from, to int) string {
	var all strings.Builder
	for n := from; n <= to; n++ {
		fmt.Fprintln(&all, n)
	}
	return all.String()
}

// The last words of a task are in its logs when Wait answers: of processes that were left behind, and of a task that
// was killed while it wrote.
func TestLogsAreWhole(t *testing.T) {
	t.Parallel()
	t.Run("written to the end", func(t *testing.T) {
		f := start(t)
		f.run("seq 1 200000", f.withLogs(nil))
		f.wait()
		if got := f.logText("stdout"); got != numbers(1, 200000) {
			t.Errorf("%d bytes, want %d", len(got), len(numbers(1, 200000)))
		}
	})
	t.Run("left behind", func(t *testing.T) {
		f := start(t)
		f.run("(trap 'echo last words; exit' TERM; echo ready; while :; do sleep 0.02; done) & sleep 0.3; exit 3", f.withLogs(nil))
		f.wait()
		testkit.Equal(t, f.logText("stdout"), "ready\nlast words\n", "standard output")
	})
	t.Run("killed", func(t *testing.T) {
		f := start(t)
		f.run("i=0; while :; do i=$((i+1)); echo $i; done", f.withLogs(nil))
		f.eventually(soon, "there is output", func() bool { return len(f.logText("stdout")) > 10000 })
		must(t, f.Stop(t.Context(), unix.SIGKILL, 0))
		lines := strings.Count(f.logText("stdout"), "\n")
		if got := f.logText("stdout"); got != numbers(1, lines) {
			t.Errorf("the log of a killed task is not the first %d numbers", lines)
		}
	})
}

// A daemon that holds the task's streams from outside of it cannot hold up the end.
func TestLogsHeldOutside(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.run("echo ready; read x < go", func(r *proto.LaunchRequest) { r.Args[1] = "mkfifo go; " + r.Args[1] }, f.withLogs(nil))
	f.eventually(soon, "the task is ready", func() bool { return f.logText("stdout") == "ready\n" })
	// This process is none of the task's.
	held, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", f.launched.GetMain().GetPid()), os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("the pipe of another process cannot be opened: %v", err)
	}
	defer held.Close()
	f.write("go", "\n")
	began := time.Now()
	f.wait()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Wait answered after %s", took)
	}
	f.expectEvent("log_abandoned")
}

func TestLogsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*proto.Logs)
		want   codes.Code
	}{
		{"no folder", func(l *proto.Logs) { l.Dir += "/none" }, codes.InvalidArgument},
		{"no limits", func(l *proto.Logs) { l.MaxFileBytes, l.MaxFiles = 0, 0 }, codes.InvalidArgument},
		{"a way out", func(l *proto.Logs) { l.Prefix = "../web" }, codes.InvalidArgument},
		{"a link", func(l *proto.Logs) {
			if err := os.Symlink("/etc", l.Dir+".link"); err == nil {
				l.Dir += ".link"
			}
		}, codes.InvalidArgument},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t)
			request := f.request("echo never")
			f.withLogs(tt.change)(request)
			if _, err := f.Launch(t.Context(), request); status.Code(err) != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
			f.noCgroupLeft()
		})
	}
}

// noCgroupLeft holds that a start that failed has left no cgroup.
func (f *fixture) noCgroupLeft() {
	f.t.Helper()
	left := testkit.Value(filepath.Glob("/sys/fs/cgroup/*/tacho-test-" + f.mark))(f.t)
	for _, pattern := range []string{"/sys/fs/cgroup/tacho-test-", "/sys/fs/cgroup/*/*/tacho-test-", "/sys/fs/cgroup/*/*/*/tacho-test-"} {
		more := testkit.Value(filepath.Glob(pattern + f.mark))(f.t)
		left = append(left, more...)
	}
	if len(left) > 0 {
		f.t.Errorf("left behind: cgroups %v", left)
	}
}

// A task of another user can open its own standard streams by name.
func TestLogsOfAnotherUser(t *testing.T) {
	t.Parallel()
	needRoot(t, "a task of another user")
	f := start(t)
	f.run("id -un; echo by name > /dev/stdout; echo err > /dev/stderr", f.withLogs(nil), func(r *proto.LaunchRequest) {
		r.User = "nobody"
	})
	f.wait()
	if got, want := f.logText("stdout"), "nobody\nby name\n"; got != want {
		t.Errorf("standard output %q, want %q; standard error %q", got, want, f.logText("stderr"))
	}
	// Its files are not the task's to change.
	info := testkit.Value(os.Stat(filepath.Join(f.dir, "logs", "web.stdout.0")))(t)
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
		t.Errorf("the log file belongs to somebody else: %+v", info.Sys())
	}
}

// A full disk stops the task when it writes, and lets it go on; the journal tells of both.
func TestLogsOnAFullDisk(t *testing.T) {
	t.Parallel()
	needRoot(t, "mounting a small disk")
	f := start(t)
	logs := f.withLogs(nil)
	disk := filepath.Join(f.dir, "logs")
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=256k,mode=0777"); err != nil {
		t.Skipf("a small disk to be filled cannot be mounted: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(disk, 0)) })
	ballast := filepath.Join(disk, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 200<<10), 0o600))
	f.run("seq 1 30000", logs)
	blocked := f.expectEvent("log_blocked")
	if blocked.GetAnnotations()["stream"] != "stdout" {
		t.Errorf("event %v", blocked)
	}
	must(t, os.Remove(ballast))
	f.expectEvent("log_unblocked")
	f.wait()
	if got := f.logText("stdout"); got != numbers(1, 30000) {
		t.Errorf("%d bytes, want %d", len(got), len(numbers(1, 30000)))
	}
}

// What cannot be written before the end of the task is lost, and the record says so.
func TestLogsLost(t *testing.T) {
	t.Parallel()
	needRoot(t, "mounting a small disk")
	for _, drop := range []bool{false, true} {
		t.Run(fmt.Sprintf("drop %t", drop), func(t *testing.T) {
			f := start(t)
			logs := f.withLogs(func(l *proto.Logs) { l.DropOnFull = drop })
			disk := filepath.Join(f.dir, "logs")
			if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64k,mode=0777"); err != nil {
				t.Skipf("a small disk to be filled cannot be mounted: %v", err)
			}
			t.Cleanup(func() { must(t, unix.Unmount(disk, 0)) })
			f.run("seq 1 20000", logs) // 108,894 bytes: what the disk does not take goes into the pipe
			_, final := f.wait()
			f.expectEvent("log_dropped")
			if !slices.ContainsFunc(final.Notes, func(note string) bool { return strings.Contains(note, "output were lost") }) {
				t.Errorf("notes of the record: %q", final.Notes)
			}
		})
	}
}
