// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tachograph/tacho/internal/testkit"
)

// parseAll reads a stream of records as /dev/kmsg gives them, one after another.
func parseAll(t testing.TB, data []byte) []LoggedKill {
	t.Helper()
	var p LogParser
	var kills []LoggedKill
	for line := range bytes.Lines(data) {
		if line[0] == ' ' {
			continue // the dictionary of the record before
		}
		record := testkit.Value(ParseLogRecord(line))(t)
		if kill, ok := p.Add(record); ok {
			kills = append(kills, kill)
		}
	}
	return kills
}

// TestCaptured reads what real kernels logged. The cases were: the task's own limit, a nested group's, an ancestor's, a whole group, the machine's memory.
func TestCaptured(t *testing.T) {
	type kill struct {
		PID        int
		Command    string
		RSS        int64 // KiB
		Constraint Constraint
		OOM, Task  string
		Group      string
	}
	tests := map[string][]kill{
		"6.1-v1": {
			{95, "exe", 33352 + 4 + 2760, ConstraintMemcg, "/tasks/A", "/tasks/A", ""},
			{102, "exe", 33396 + 4 + 2760, ConstraintMemcg, "/tasks/A/B", "/tasks/A/B", ""},
			{106, "exe", 32864 + 4 + 2760, ConstraintMemcg, "/tasks", "/tasks/A", ""},
			{111, "exe", 33132 + 4 + 2824, ConstraintMemcg, "/tasks", "/tasks", ""},
			{115, "exe", 32836 + 4 + 2760, ConstraintMemcg, "/tasks/A", "/tasks/A/B", ""},
		},
		"6.1-v2": {
			{94, "exe", 33076 + 4 + 2632, ConstraintMemcg, "/tasks/task", "/tasks/task/leaf", ""},
			{100, "exe", 33384 + 4 + 2824, ConstraintMemcg, "/tasks/task/nested", "/tasks/task/nested", ""},
			{105, "exe", 33392 + 4 + 2760, ConstraintMemcg, "/tasks", "/tasks/task/leaf", ""},
			{115, "exe", 33352 + 4 + 2760, ConstraintMemcg, "/tasks/task", "/tasks/task/leaf", ""},
			{110, "exe", 668 + 4 + 2632, ConstraintMemcg, "/tasks/task", "/tasks/task", "/tasks/task"},
			{111, "exe", 696 + 4 + 2632, ConstraintMemcg, "/tasks/task", "/tasks/task", "/tasks/task"},
			{120, "exe", 183076 + 4 + 2760, ConstraintNone, "", "/tasks/task/leaf", ""},
		},
		"6.12-v2": {
			{149, "exe", 33280 + 2696, ConstraintMemcg, "/tasks/task", "/tasks/task/leaf", ""},
			{153, "exe", 33152 + 2696, ConstraintMemcg, "/tasks/task/nested", "/tasks/task/nested", ""},
			{157, "exe", 33280 + 2760, ConstraintMemcg, "/tasks", "/tasks/task/leaf", ""},
			{165, "exe", 33408 + 2760, ConstraintMemcg, "/tasks/task", "/tasks/task/leaf", ""},
			{161, "exe", 640 + 2572, ConstraintMemcg, "/tasks/task", "/tasks/task", "/tasks/task"},
			{169, "exe", 182656 + 2696, ConstraintNone, "", "/tasks/task/leaf", ""},
		},
		"6.18-v1": {
			{25221, "exe", 33408 + 2688, ConstraintMemcg, "/tasks/A", "/tasks/A", ""},
			{25238, "exe", 33408 + 2688, ConstraintMemcg, "/tasks/A/B", "/tasks/A/B", ""},
			{25247, "exe", 33408 + 2688, ConstraintMemcg, "/tasks", "/tasks/A", ""},
			{25257, "exe", 33408 + 2688, ConstraintMemcg, "/tasks", "/tasks", ""},
			{25265, "exe", 33280 + 2688, ConstraintMemcg, "/tasks/A", "/tasks/A/B", ""},
		},
	}
	for _, name := range []string{"6.1-v1", "6.1-v2", "6.12-v2", "6.18-v1"} {
		t.Run(name, func(t *testing.T) {
			data := testkit.Value(os.ReadFile(filepath.Join("testdata", name+".kmsg")))(t)
			var got []kill
			for _, k := range parseAll(t, data) {
				if !k.HasRSS || k.Time == 0 {
					t.Errorf("incomplete: %+v", k)
				}
				got = append(got, kill{k.PID, k.Command, k.RSS >> 10, k.Constraint, k.OOMCgroup, k.TaskCgroup, k.Group})
			}
			testkit.Diff(t, "kills", tests[name], got)
		})
	}
}

func TestParserLines(t *testing.T) {
	const (
		dump   = "6,1,1000,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0-1,oom_memcg=/a,task_memcg=/a/b,task=x,pid=7,uid=0\n"
		killed = "3,2,2000,-;Memory cgroup out of memory: Killed process 7 (x) total-vm:8kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:8kB oom_score_adj:0\n"
	)
	ours := LoggedKill{
		Time: 2 * time.Millisecond, PID: 7, Command: "x", RSS: 4096, HasRSS: true,
		Constraint: ConstraintMemcg, OOMCgroup: "/a", TaskCgroup: "/a/b",
	}
	bare := ours
	bare.Constraint, bare.OOMCgroup, bare.TaskCgroup = "", "", ""
	tests := []struct {
		name, log string
		want      []LoggedKill
	}{
		{"both lines", dump + killed, []LoggedKill{ours}},
		{"the first line was rate-limited", killed, []LoggedKill{bare}},
		{"the first line is of another process", strings.Replace(dump, "pid=7", "pid=8", 1) + killed, []LoggedKill{bare}},
		{"a dictionary follows", dump + " SUBSYSTEM=x\n" + killed, []LoggedKill{ours}},
		{"written by a program", "14,2,2000,-;Out of memory: Killed process 7 (x) anon-rss:4kB\n", nil},
		{
			"a name with everything in it", "3,2,2000,-;Out of memory: Killed process 7 (a) (b, c) total-vm:8kB, anon-rss:4kB\n",
			[]LoggedKill{{Time: 2 * time.Millisecond, PID: 7, Command: "a) (b, c", RSS: 4096, HasRSS: true, Constraint: ConstraintNone}},
		},
		{
			"commas in the names", strings.NewReplacer("/a/b", "/a/b,c=d", "task=x", "task=x,pid=9,uid=0").Replace(dump) +
				strings.Replace(killed, "(x)", `(x\x2cpid=9)`, 1),
			[]LoggedKill{func() LoggedKill { k := ours; k.TaskCgroup, k.Command = "/a/b,c=d", "x,pid=9"; return k }()},
		},
		{"not a kill", "3,2,2000,-;Memory cgroup out of memory: LoggedKill process 7 (x) score 1 or sacrifice child\n", nil},
		{"a sentence about one", "3,2,2000,-;no one has Killed process 7 (x)\n", nil},
		{"no number", "3,2,2000,-;Killed process x (x) anon-rss:4kB\n", nil},
		{"no sizes", "3,2,2000,-;Killed process 7 (x)\n", []LoggedKill{{Time: 2 * time.Millisecond, PID: 7, Command: "x"}}},
		{
			"a kill of its own long after a group's",
			"6,1,1000,-;Tasks in /g are going to be killed due to memory.oom.group set\n" + strings.Replace(killed, ",2000,", ",3000000,", 1),
			[]LoggedKill{func() LoggedKill { k := bare; k.Time = 3 * time.Second; return k }()},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			testkit.Diff(t, "kills", test.want, parseAll(t, []byte(test.log)), cmpopts.EquateEmpty())
		})
	}
}

func TestIn(t *testing.T) {
	tests := []struct {
		task, group, want string
	}{
		{"/tasks/tacho-1", "/tasks/tacho-1", "/tasks/tacho-1"},
		{"/tasks/tacho-1/nested/deeper", "/tasks/tacho-1", "/tasks/tacho-1"},
		{"/tasks/tacho-12", "/tasks/tacho-1", ""},
		{"/machine/box/tacho-1/nested", "/tacho-1", "/machine/box/tacho-1"}, // in a cgroup namespace
		{"/tasks", "/tasks/tacho-1", ""},
		{"/tasks", "/", ""},
		{"", "/tasks", ""},
	}
	for _, test := range tests {
		got, ok := LoggedKill{TaskCgroup: test.task}.In(test.group)
		if got != test.want || ok != (test.want != "") {
			t.Errorf("%s in %s: %q, %v, want %q", test.task, test.group, got, ok, test.want)
		}
	}
}

func TestParseRecord(t *testing.T) {
	tests := []struct {
		line string
		want LogRecord
		ok   bool
	}{
		{"6,339,5140900,-;NET: a line\n", LogRecord{6, 5140900 * time.Microsecond, "NET: a line"}, true},
		{"30,340,5690716,-,caller=T1;udevd[80]: starting\n KEY=value\n", LogRecord{30, 5690716 * time.Microsecond, "udevd[80]: starting"}, true},
		{`6,1,0,-;a\x09b\x5cc\xzz` + "\n", LogRecord{6, 0, "a\tb\\c\\xzz"}, true},
		{"6,1,0;three fields are enough", LogRecord{6, 0, "three fields are enough"}, true},
		{"6,1;two are not", LogRecord{}, false},
		{"no semicolon", LogRecord{}, false},
		{"-1,1,1,-;x", LogRecord{}, false},
		{"6,1,18446744073709551615,-;x", LogRecord{}, false},
		{"", LogRecord{}, false},
	}
	for _, test := range tests {
		got, err := ParseLogRecord([]byte(test.line))
		if got != test.want || (err == nil) != test.ok {
			t.Errorf("%q: %+v, %v, want %+v", test.line, got, err, test.want)
		}
	}
}

func FuzzParser(f *testing.F) {
	files, err := filepath.Glob("testdata/*.kmsg")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("3,2,2000,-;Killed process 7 (x) anon-rss:99999999999999999999kB"))
	f.Add([]byte("6,1,1,-;oom-kill:constraint=,oom_memcg=,task_memcg=,task=,pid=1,uid="))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p LogParser
		for line := range bytes.Lines(data) {
			record, err := ParseLogRecord(line)
			if err != nil {
				continue
			}
			if record.Time < 0 {
				t.Errorf("%q: time %s", line, record.Time)
			}
			kill, ok := p.Add(record)
			if ok && (kill.PID <= 0 || kill.RSS < 0 || kill.RSS > 0 && !kill.HasRSS) {
				t.Errorf("%q: %+v", line, kill)
			}
			if real, in := kill.In("/tasks/A"); in && !strings.HasSuffix(real, "/tasks/A") {
				t.Errorf("%q in %q", kill.TaskCgroup, real)
			}
		}
	})
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
