// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// child starts a command and returns its identity; it is killed and waited for with the test.
func child(t *testing.T, name string, args ...string) procstats.ProcessID {
	t.Helper()
	cmd := exec.Command(name, args...)
	must(t, cmd.Start())
	t.Cleanup(func() {
		// It may have ended by itself.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	identity := testkit.Value(kernel.Identify(kernel.HostFS(), cmd.Process.Pid))(t)
	return identity.ProcessID
}

// awaitZombie waits until a child has ended. It is not reaped before the end of the test.
func awaitZombie(t *testing.T, id procstats.ProcessID) {
	t.Helper()
	p, err := process.Open(kernel.HostFS(), id)
	if errors.Is(err, process.ErrGone) {
		return
	}
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := errors.Join(p.Wait(ctx), p.Close()); err != nil {
		t.Fatalf("wait for the end of process %d: %v", id.PID, err)
	}
}

func kill(t *testing.T, id procstats.ProcessID, signal unix.Signal) {
	t.Helper()
	must(t, process.Child(id.PID).Signal(signal))
}

func TestScopeFromLog(t *testing.T) {
	const path = "/tasks/tacho-1"
	tests := []struct {
		name     string
		kill     LoggedKill
		scope    record.Scope
		limitsAt string
	}{
		{"own", LoggedKill{Constraint: ConstraintMemcg, OOMCgroup: path, TaskCgroup: path}, record.Own, path},
		{"own, victim below", LoggedKill{Constraint: ConstraintMemcg, OOMCgroup: path, TaskCgroup: path + "/x"}, record.Own, path},
		{"below", LoggedKill{Constraint: ConstraintMemcg, OOMCgroup: path + "/x", TaskCgroup: path + "/x/y"}, record.Descendant, path + "/x"},
		{"above", LoggedKill{Constraint: ConstraintMemcg, OOMCgroup: "/tasks", TaskCgroup: path}, record.Ancestor, "/tasks"},
		{"the root's", LoggedKill{Constraint: ConstraintMemcg, OOMCgroup: "/", TaskCgroup: path}, record.Ancestor, "/"},
		{"the host's", LoggedKill{Constraint: ConstraintNone, TaskCgroup: path}, record.HostScope, ""},
		{"that of some nodes", LoggedKill{Constraint: "CONSTRAINT_CPUSET", TaskCgroup: path}, record.HostScope, ""},
		{"own, in a namespace", LoggedKill{Constraint: ConstraintMemcg, OOMCgroup: "/box" + path, TaskCgroup: "/box" + path}, record.Own, path},
		{"visible above, in a namespace", LoggedKill{Constraint: ConstraintMemcg, OOMCgroup: "/box/tasks", TaskCgroup: "/box" + path}, record.Ancestor, "/tasks"},
		{"hidden above, in a namespace", LoggedKill{Constraint: ConstraintMemcg, OOMCgroup: "/box", TaskCgroup: "/box" + path}, record.Ancestor, ""},
		{"a group of a like name", LoggedKill{Constraint: ConstraintMemcg, OOMCgroup: path + "2", TaskCgroup: path + "2"}, "", ""},
		{"rate-limited", LoggedKill{PID: 7}, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := &victimFinder{path: path}
			scope, at := v.scopeOf(test.kill)
			if scope != test.scope || at != test.limitsAt {
				t.Errorf("%q at %q, want %q at %q", scope, at, test.scope, test.limitsAt)
			}
		})
	}
}

// sampleOf is a sample with a row for each process, the later ones larger.
func sampleOf(ids ...procstats.ProcessID) func() *procstats.Sample {
	s := &procstats.Sample{}
	for i, id := range ids {
		row := s.AddProcess(id)
		row.Command = "worker"
		row.Readings.Put(procstats.NumberReading(procstats.ProcessRSS, float64((i+1)<<20)))
	}
	return func() *procstats.Sample { return s }
}

func workerOf(id procstats.ProcessID, rss int64) record.Victim {
	return record.Victim{PID: id.PID, Command: "worker", RSSBytes: new(rss), Source: record.FromSample}
}

// TestVictimsFromSample holds that a process is called a victim only on proof, and only once.
func TestVictimsFromSample(t *testing.T) {
	main, first, second, third := child(t, "sleep", "1000"), child(t, "sleep", "1000"), child(t, "sleep", "1000"), child(t, "sleep", "1000")
	v := &victimFinder{
		host: kernel.HostFS(), main: main, latest: sampleOf(main, first, second, third), denied: errors.New("not here"),
	}
	if f := v.find(1); len(f.victims) != 0 || !strings.Contains(f.reason, "not here") || !strings.Contains(f.reason, "known to have been killed") {
		t.Errorf("all processes live: %+v", f)
	}
	kill(t, first, unix.SIGKILL)
	kill(t, second, unix.SIGKILL)
	awaitZombie(t, first)
	awaitZombie(t, second)
	if diff := cmp.Diff([]record.Victim{workerOf(second, 3<<20)}, v.find(1).victims); diff != "" {
		t.Errorf("two were killed, and one is asked for: the larger (-want +got):\n%s", diff)
	}
	if f := v.find(1); len(f.victims) != 0 {
		t.Errorf("no other process was killed: %+v", f)
	}
	kill(t, third, unix.SIGTERM)
	awaitZombie(t, third)
	testkit.Diff(t, "the only one that is missing", []record.Victim{workerOf(third, 4<<20)}, v.find(1).victims)
	kill(t, main, unix.SIGKILL)
	awaitZombie(t, main)
	f := v.find(1)
	if diff := cmp.Diff([]record.Victim{workerOf(main, 1<<20)}, f.victims); diff != "" || !f.main {
		t.Errorf("the main process, %v (-want +got):\n%s", f.main, diff)
	}
	must(t, v.close())
}

// TestVictimsAreNotGuessed holds that of several that are gone none is named, and never the main process.
func TestVictimsAreNotGuessed(t *testing.T) {
	main, first, second := child(t, "sleep", "0"), child(t, "sleep", "0"), child(t, "sleep", "0")
	for _, id := range []procstats.ProcessID{main, first, second} {
		awaitZombie(t, id)
	}
	v := &victimFinder{host: kernel.HostFS(), main: main, latest: sampleOf(main, first, second), denied: errors.New("not here")}
	if f := v.find(1); len(f.victims) != 0 || f.main {
		t.Errorf("several are gone: %+v", f)
	}
	group := func() (int64, bool) { return 50 << 20, true }
	small := &victimFinder{host: kernel.HostFS(), main: main, latest: sampleOf(main, first), peak: group, denied: errors.New("not here")}
	if f := small.find(1); len(f.victims) != 0 {
		t.Errorf("one that had 2 MiB of 50 is gone: %+v", f)
	}
	alone := &victimFinder{host: kernel.HostFS(), main: main, latest: sampleOf(main), denied: errors.New("not here")}
	if f := alone.find(1); len(f.victims) != 0 || f.main {
		t.Errorf("the main process is gone: %+v", f)
	}
	unsampled := &victimFinder{host: kernel.HostFS(), main: main, latest: func() *procstats.Sample { return nil }, denied: errors.New("not here")}
	if f := unsampled.find(1); !strings.Contains(f.reason, "nothing was sampled") {
		t.Errorf("nothing was sampled: %+v", f)
	}
}

// TestMainIsNamed completes kills of which it turned out later that they ended the main process.
func TestMainIsNamed(t *testing.T) {
	final := &procstats.Sample{}
	final.Task.Put(procstats.NumberReading(procstats.RusageMaxRSS, 9<<20))
	main := procstats.ProcessID{PID: 7, Start: 1}
	abroad := record.Victim{PID: 4007, Command: "worker", RSSBytes: new(int64(3 << 20)), Source: record.FromKmsg, Namespace: "host"}
	local, other, small := abroad, abroad, workerOf(main, 0)
	local.PID, local.Namespace, other.Command, small.RSSBytes = main.PID, "", "other", nil
	tests := []struct {
		name       string
		seen       func() *procstats.Sample
		kill, want record.Kill
	}{
		{"no reason reported", sampleOf(main), record.Kill{Reason: "none"}, record.Kill{Main: true, Victims: []record.Victim{workerOf(main, 1<<20)}}},
		{"nor was it sampled", sampleOf(), record.Kill{Reason: "none"}, record.Kill{Main: true, Victims: []record.Victim{workerOf(main, 9<<20)}}},
		{
			"its memory was given back", sampleOf(main),
			record.Kill{Main: true, Victims: []record.Victim{small}},
			record.Kill{Main: true, Victims: []record.Victim{workerOf(main, 1<<20)}},
		},
		{
			"a number of another namespace", sampleOf(),
			record.Kill{Victims: []record.Victim{abroad}},
			record.Kill{Main: true, Victims: []record.Victim{local}},
		},
		{"another's", sampleOf(main), record.Kill{Victims: []record.Victim{other}}, record.Kill{Victims: []record.Victim{other}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := &victimFinder{main: main, command: "worker", latest: test.seen}
			v.remember()
			v.nameMain(&test.kill, final)
			testkit.Diff(t, "kill", test.want, test.kill)
		})
	}
}

// slowLog says of a kill whenever its time, from the start of a test, has come.
type slowLog struct {
	began time.Time
	kills []LoggedKill
}

func (l *slowLog) Next() (said []LoggedKill, err error) {
	for len(l.kills) > 0 && l.kills[0].Time <= time.Since(l.began) {
		said, l.kills = append(said, l.kills[0]), l.kills[1:]
	}
	return said, nil
}

func (l *slowLog) Wait(timeout time.Duration) error {
	if len(l.kills) > 0 {
		timeout = min(timeout, l.kills[0].Time-time.Since(l.began))
	}
	<-time.After(timeout)
	return nil
}

func (l *slowLog) Close() error { return nil }

// TestLogged holds for how long lines of the log are waited for, and that none is lost.
func TestLogged(t *testing.T) {
	const path, ms = "/jobs/one", time.Millisecond
	ours := func(pid int, at time.Duration) LoggedKill { return LoggedKill{PID: pid, Time: at, TaskCgroup: path} }
	other := LoggedKill{PID: 99, Time: ms, TaskCgroup: "/jobs/two"}
	tests := []struct {
		name string
		log  []LoggedKill
		asks []int64 // how many kills each notification tells of
		want [][]int // the numbers of the processes
		took time.Duration
	}{
		{"at once", []LoggedKill{ours(1, 0)}, []int64{1}, [][]int{{1}}, 0},
		{"after the killing CPU was kept from running", []LoggedKill{other, ours(1, 200*ms)}, []int64{1}, [][]int{{1}}, 200 * ms},
		{"nothing comes", []LoggedKill{other}, []int64{1}, [][]int{nil}, logDelay},
		{"another's that may be ours", []LoggedKill{{PID: 98, Time: ms}}, []int64{1}, [][]int{nil}, ms},
		{"a group, with one kill more than processes", []LoggedKill{ours(1, 9*ms), ours(2, 30*ms)}, []int64{3}, [][]int{{1, 2}}, 30*ms + restDelay},
		{"before its notification", []LoggedKill{ours(1, ms), ours(2, ms)}, []int64{1, 1}, [][]int{{1}, {2}}, ms},
		{"one before and one after", []LoggedKill{ours(1, ms), ours(2, ms), ours(3, 200*ms)}, []int64{1, 2}, [][]int{{1}, {2, 3}}, 200 * ms},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				v := &victimFinder{
					host: kernel.FS{Proc: t.TempDir()}, path: path, reader: &slowLog{began, test.log},
					latest: func() *procstats.Sample { return nil },
				}
				var got [][]int
				for _, number := range test.asks {
					kills := testkit.Value(v.logged(number))(t)
					var pids []int
					for _, kill := range kills {
						pids = append(pids, kill.PID)
					}
					got = append(got, pids)
				}
				testkit.Diff(t, "victims", test.want, got)
				if took := time.Since(began); took != test.took {
					t.Errorf("it took %s, want %s", took, test.took)
				}
			})
		})
	}
}

// TestForeignNumbers holds that the log's numbers are taken for ours only in the first PID namespace.
func TestForeignNumbers(t *testing.T) {
	id := child(t, "sleep", "1000")
	kill(t, id, unix.SIGKILL)
	awaitZombie(t, id)
	logged := []LoggedKill{{PID: 4711, Command: "worker", RSS: 8 << 20, HasRSS: true}}
	v := &victimFinder{host: kernel.HostFS(), main: id, latest: sampleOf(id), foreign: true}
	f := v.fromLog(logged)
	want := []record.Victim{{PID: id.PID, Command: "worker", RSSBytes: new(int64(8 << 20)), Source: record.FromKmsg}}
	if diff := cmp.Diff(want, f.victims); diff != "" || !f.main {
		t.Errorf("the one process of that name that is gone, main %v (-want +got):\n%s", f.main, diff)
	}
	logged[0].Command = "another"
	f = v.fromLog(logged)
	want = []record.Victim{{PID: 4711, Namespace: "host", Command: "another", RSSBytes: new(int64(8 << 20)), Source: record.FromKmsg}}
	if diff := cmp.Diff(want, f.victims); diff != "" || f.main {
		t.Errorf("no process of that name, main %v (-want +got):\n%s", f.main, diff)
	}
	v.foreign = false
	logged[0].PID = id.PID
	if f = v.fromLog(logged); !f.main || f.victims[0].Namespace != "" {
		t.Errorf("the first namespace: %+v", f)
	}
}

// TestMainInAnOldLog holds that limit and victim are of one line: a number may be in the log twice.
func TestMainInAnOldLog(t *testing.T) {
	log := &slowLog{time.Now(), []LoggedKill{
		{PID: 7, Command: "earlier", Constraint: ConstraintMemcg, OOMCgroup: "/earlier", TaskCgroup: "/earlier"},
		{PID: 7, Command: "worker", Constraint: ConstraintMemcg, OOMCgroup: "/jobs", TaskCgroup: "/jobs"},
	}}
	v := &victimFinder{main: procstats.ProcessID{PID: 7}, reader: log}
	f := v.findMain()
	if !f.main || f.victims[0].Command != "worker" || f.scope != record.Ancestor || f.limitPath != "/jobs" {
		t.Errorf("%+v, want the last line's worker and its limit at /jobs", f)
	}
}

func TestYoung(t *testing.T) {
	v := &victimFinder{since: kernel.Now().Mono - time.Minute}
	for age, want := range map[time.Duration]bool{0: true, 59 * time.Second: true, time.Hour: false} {
		kill := LoggedKill{Time: kernel.Now().Mono - age}
		if got := v.young(kill); got != want && kill.Time > 0 {
			t.Errorf("a line of %s ago: young %v, want %v", age, got, want)
		}
	}
}

// fakeProc makes a proc root with files.
func fakeProc(t *testing.T, files map[string]string) kernel.FS {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)))
	}
	return kernel.FS{Proc: root}
}

func TestUserspaceKillers(t *testing.T) {
	host := fakeProc(t, map[string]string{
		"1/comm": "systemd\n", "200/comm": "systemd-oomd\n", "300/comm": "earlyoom\n", "301/comm": "earlyoom\n",
		"400/comm": "my-earlyoom\n", "self/comm": "nohang\n", "500/stat": "no comm",
	})
	testkit.Diff(t, "killers", []string{"earlyoom", "systemd-oomd"}, userspaceKillers(host))
	if got := userspaceKillers(kernel.FS{Proc: filepath.Join(host.Proc, "none")}); got != nil {
		t.Errorf("without a proc: %q", got)
	}
}

// TestVictimOfAGroup holds that the process which the kernel chose is the victim, and not the main process that was
// killed with it.
func TestVictimOfAGroup(t *testing.T) {
	log := testkit.Value(os.ReadFile("testdata/6.12-v2.kmsg"))(t)
	kills := parseAll(t, log)
	const main, chosen = 161, 165
	v := &victimFinder{host: kernel.HostFS(), path: "/tasks/task", main: procstats.ProcessID{PID: main}}
	kills = slices.DeleteFunc(kills, func(k LoggedKill) bool { return k.PID != main && k.PID != chosen })
	f := v.fromLog(kills)
	kill := record.Kill{Group: true, Main: f.main, Victims: f.victims}
	if victim := kill.Victim(); !f.main || len(f.victims) != 2 || victim.PID != chosen || f.victims[0].PID != main {
		t.Errorf("victim %+v of %+v", victim, f.victims)
	}
	kill.Group = false
	if victim := kill.Victim(); victim.PID != main {
		t.Errorf("victim %+v of a kill of single processes", victim)
	}
}
