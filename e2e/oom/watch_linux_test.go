// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/oom"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestEventLatency lets workers be killed one after another while their parent lives on, and holds that each is told
// at once: the time of the kernel's line in its log against that of the event.
func TestEventLatency(t *testing.T) {
	parent := rig.NeedMemory(t)
	const kills = 12
	place := rig.NewPlace(t, rig.Self())
	cmd := place.Run(t.Context(), "--cgroup-parent", parent.Path, "--memory", limitFlag, "--live", "never",
		"--", self(t), roleParent, text(kills), text(limitBytes*5/4), "0", "wait")
	input, output, err := os.Pipe()
	testkit.Must(t, err)
	defer output.Close()
	cmd.Stdin = input
	startRole(t, place, cmd)
	input.Close()
	log := openLog(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*deadline)
	defer cancel()
	events := testkit.Value(visit(t, place).Events(ctx))(t)
	if _, err := output.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	told := map[string]*proto.Event{}
	for len(told) < kills {
		event, err := events.Recv()
		if err != nil {
			t.Fatalf("after %d of %d events: %v; the log has %+v", len(told), kills, err, log.kills(t))
		}
		if event.GetKind() != "oom_kill" {
			continue
		}
		t.Logf("%s: %v", event.GetMessage(), event.GetAnnotations())
		told[event.GetAnnotations()["victim_pid"]] = event
		if !strings.Contains(event.GetMessage(), "the main process is still running") {
			t.Errorf("event %q", event.GetMessage())
		}
		for _, name := range []string{"scope", "kills", "limit_bytes", "peak_bytes", "headroom_bytes", "victim_command", "victim_rss_bytes"} {
			if event.GetAnnotations()[name] == "" {
				t.Errorf("event %v: no %s", event.GetAnnotations(), name)
			}
		}
	}
	if _, err := output.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	var late []time.Duration
	for _, kill := range log.kills(t) {
		if event := told[text(kill.PID)]; event != nil {
			late = append(late, time.Unix(0, event.GetUnixNs()).Sub(log.began.Add(kill.Time)))
		}
	}
	if len(late) != kills {
		t.Errorf("the log has %d of %d victims", len(late), kills)
	}
	slices.Sort(late)
	t.Logf("from the kernel's line to the event: median %s, from %s to %s", late[len(late)/2], late[0], late[len(late)-1])
	atOnce := 50 * time.Millisecond
	if os.Getenv("TACHO_GUEST") != "" {
		atOnce = time.Second // times are the emulator's
	}
	if late[len(late)/2] > atOnce {
		t.Errorf("that is not at once: want less than %s", atOnce)
	}
	r := closed(t, place, cmd)
	if got := endOf(t, r); got.Kills != kills {
		t.Errorf("%d kills, want %d", got.Kills, kills)
	}
}

// kernelLog reads the kernel's log, whose clock it knows.
type kernelLog struct {
	fd    int
	began time.Time // when that clock was 0
}

// openLog opens the log and sets its clock by a line of our own.
func openLog(t *testing.T) *kernelLog {
	t.Helper()
	fd, err := unix.Open(oom.LogPath, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("the kernel's log cannot be read here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if _, err := unix.Seek(fd, 0, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	l := &kernelLog{fd: fd}
	mark := fmt.Sprintf("e2e %d", os.Getpid())
	before := time.Now()
	if _, err := unix.Write(fd, []byte("<15>"+mark+"\n")); err != nil {
		t.Skipf("the kernel's log cannot be written to here: %v", err)
	}
	for _, record := range l.records(t) {
		if record.Text == mark {
			l.began = before.Add(-record.Time)
		}
	}
	if l.began.IsZero() {
		t.Fatal("the kernel's log has lost a line")
	}
	return l
}

func (l *kernelLog) records(t *testing.T) []oom.LogRecord {
	t.Helper()
	var all []oom.LogRecord
	buffer := make([]byte, 8<<10)
	for {
		n, err := unix.Read(l.fd, buffer)
		if errors.Is(err, unix.EAGAIN) {
			return all
		}
		testkit.Must(t, err)
		record := testkit.Value(oom.ParseLogRecord(buffer[:n]))(t)
		all = append(all, record)
	}
}

// letLogTell waits until the kernel's log will have all lines of the next kills: those that say in which group it was are
// written ten times in five seconds at most, whoever's they are (oom_kill_process in mm/oom_kill.c).
func letLogTell(t *testing.T, next int) {
	t.Helper()
	const most, span, slack = 10, 5 * time.Second, time.Second
	log, err := oom.OpenLog()
	if err != nil {
		t.Skipf("the kernel's log cannot be read here: %v", err)
	}
	defer log.Close()
	var recent []oom.LoggedKill
	rig.Eventually(t, deadline, "the kernel's log has room for more kills", func() bool {
		kills := testkit.Value(log.Next())(t)
		since := kernel.Now().Mono - span - slack
		recent = slices.DeleteFunc(append(recent, kills...), func(k oom.LoggedKill) bool { return k.Time < since })
		return len(recent)+next <= most
	})
}

func (l *kernelLog) kills(t *testing.T) []oom.LoggedKill {
	t.Helper()
	var p oom.LogParser
	var kills []oom.LoggedKill
	for _, record := range l.records(t) {
		if kill, ok := p.Add(record); ok {
			kills = append(kills, kill)
		}
	}
	return kills
}

// TestIdleCost holds that an executor does nothing at all while its task sleeps and nobody asks.
func TestIdleCost(t *testing.T) {
	parent := rig.NeedMemory(t)
	place := rig.NewPlace(t, rig.Self())
	cmd := place.Run(t.Context(), "--cgroup-parent", parent.Path, "--memory", limitFlag, "--interval", "1h", "--live", "never",
		"--", self(t), roleHold, text(limitBytes/2))
	r := startRole(t, place, cmd)
	// What belongs to the start comes to its end.
	quiet := switches(t, r.Executor.PID)
	rig.Eventually(t, deadline, "the executor is done with the start", func() bool {
		<-time.After(time.Second) // it gives memory back half a second after the start
		before := quiet
		quiet = switches(t, r.Executor.PID)
		return quiet == before
	})
	const span = 2 * time.Second
	<-time.After(span)
	if woken := switches(t, r.Executor.PID) - quiet; woken != 0 {
		t.Errorf("%d context switches in %s, want none", woken, span)
	}
	testkit.Must(t, cmd.Process.Signal(unix.SIGTERM))
	closed(t, place, cmd)
}

// switches sums the context switches of all threads of a process.
func switches(t *testing.T, pid int) (n int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("no threads of %d: %v", pid, err)
	}
	for _, file := range files {
		status, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		for line := range bytes.Lines(status) {
			if name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":\t"); strings.HasSuffix(name, "voluntary_ctxt_switches") {
				n += integer(value)
			}
		}
	}
	return n
}

// TestThrashingCost has a task live at its limit, which the kernel tells of all the time, and prints what that costs
// the executor when nobody asks for samples.
func TestThrashingCost(t *testing.T) {
	parent := rig.NeedMemory(t)
	place := rig.NewPlace(t, rig.Self())
	const limit = 24 * mib
	file := bigFile(t, place, 4*limit)
	span := 10 * time.Second
	if testing.Short() || os.Getenv("TACHO_GUEST") != "" {
		span = 4 * time.Second
	}
	cmd := place.Run(t.Context(), "--cgroup-parent", parent.Path, "--memory", text(limit), "--interval", "1h", "--live", "never",
		"--", self(t), roleRead, file, span.String())
	r := startRole(t, place, cmd)
	before, woken := cpuTime(t, r.Executor.PID), switches(t, r.Executor.PID)
	<-time.After(span * 3 / 4)
	used, woken := cpuTime(t, r.Executor.PID)-before, switches(t, r.Executor.PID)-woken
	share := used.Seconds() / (span * 3 / 4).Seconds()
	r = closed(t, place, cmd)
	hit := r.Diagnosis.Evidence["cgroup_memory_events_max_total_after"]
	if hit == nil {
		hit = r.Diagnosis.Evidence["cgroup_memory_failcnt_total_after"]
	}
	t.Logf("the limit was hit %v times; the executor used %s in %s, %.2f %% of a core, %d context switches; %s", hit, used, span*3/4,
		100*share, woken, r.Diagnosis.Stall)
	if n, ok := hit.(float64); !ok || n < 100 {
		t.Errorf("the task did not live at its limit: it was hit %v times", hit)
	}
	// An emulator's clock counts what its host does besides.
	if share > 0.02 && os.Getenv("TACHO_GUEST") == "" {
		t.Error("that is not little")
	}
}

// bigFile returns a file larger than a task's limit, on a disk: the page cache of one in memory cannot be given back.
func bigFile(t *testing.T, place *rig.Place, size int64) string {
	t.Helper()
	const disk = "/dev/vda"
	if info, err := os.Stat(disk); err == nil && info.Mode()&os.ModeDevice != 0 && os.Getenv("TACHO_GUEST") != "" {
		return disk
	}
	var fs unix.Statfs_t
	testkit.Must(t, unix.Statfs(place.Dir, &fs))
	if kind := uint32(fs.Type); kind == unix.TMPFS_MAGIC || kind == unix.RAMFS_MAGIC {
		t.Skip("no disk here: a guest needs -disk 128")
	}
	f := testkit.Value(os.Create(place.Path("big")))(t)
	defer f.Close()
	block := bytes.Repeat([]byte("tacho"), 1<<18)
	for written := int64(0); written < size; {
		n := testkit.Value(f.Write(block))(t)
		written += int64(n)
	}
	testkit.Must(t, f.Sync())
	testkit.Must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	return f.Name()
}

// cpuTime is what all threads of a process have used, by its CPU clock.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	var ts unix.Timespec
	// clock_getcpuclockid(3): the PID, inverted, above three bits that say "the scheduler's clock of a process".
	testkit.Must(t, unix.ClockGettime(int32(^pid<<3|2), &ts))
	return time.Duration(ts.Nano())
}
