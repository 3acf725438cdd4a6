// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestExtend counts processes of a group that is killed as a whole to the one kill of it.
func TestExtend(t *testing.T) {
	first, second := record.Victim{PID: 1}, record.Victim{PID: 2}
	group := record.Kill{At: time.Now(), Kills: 1, Group: true, Victims: []record.Victim{first}, Others: true}
	single, old, extended, withMain := group, group, group, group
	single.Group = false
	old.At = old.At.Add(-2 * groupSpan)
	extended.Others, extended.Victims = false, []record.Victim{first, second}
	withMain.Others, withMain.Main, withMain.Victims = false, true, []record.Victim{second, first}
	tests := []struct {
		name  string
		group string // memory.oom.group
		last  []record.Kill
		found found
		want  []record.Kill
		ok    bool
	}{
		{"one more", "1\n", []record.Kill{group}, found{victims: []record.Victim{second}}, []record.Kill{extended}, true},
		{"the main process", "1\n", []record.Kill{group}, found{victims: []record.Victim{second}, main: true}, []record.Kill{withMain}, true},
		{"the first", "1\n", nil, found{}, nil, false},
		{"not of a group", "1\n", []record.Kill{single}, found{}, []record.Kill{single}, false},
		{"of one long ago", "1\n", []record.Kill{old}, found{}, []record.Kill{old}, false},
		{"of a group below", "0\n", []record.Kill{group}, found{}, []record.Kill{group}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			own := t.TempDir()
			for name, text := range map[string]string{"memory.events": "oom_kill 0\n", "memory.oom.group": test.group} {
				must(t, os.WriteFile(filepath.Join(own, name), []byte(text), 0o600))
			}
			host := fakeProc(t, map[string]string{"self/mountinfo": ""})
			watcher := openWatcher(host, procstats.Cgroup{V2: own})
			o := &Monitor{watcher: watcher, victims: &victimFinder{host: host}, kills: test.last}
			changed, ok := o.extend(test.found)
			testkit.Equal(t, ok, test.ok, "extended")
			if other := test.ok && test.found.main; other != (changed != nil) || other && !cmp.Equal(*changed, o.kills[0]) {
				t.Errorf("reported again: %+v", changed)
			}
			testkit.Diff(t, "kills", test.want, o.kills)
			must(t, watcher.Close())
		})
	}
}

// TestReportsNameTheVictim holds that what was reported last of a kill names the victim that the evidence has.
func TestReportsNameTheVictim(t *testing.T) {
	main := procstats.ProcessID{PID: 7, Start: 1}
	for name, test := range map[string]struct {
		victims []record.Victim
		again   bool
	}{
		"no victim":                 {nil, true},
		"by a number of the host's": {[]record.Victim{{PID: 4711, Command: "main", Namespace: "host"}}, true},
		"a child":                   {[]record.Victim{{PID: 8, Command: "child"}}, false},
		"known at once":             {[]record.Victim{{PID: 7, Command: "main"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var reported []record.Kill
			m := &Monitor{victims: &victimFinder{main: main, command: "main"}}
			m.report = func(kill record.Kill, again bool) {
				testkit.Equal(t, again, len(reported) > 0, "report %d is said to be one again", len(reported)+1)
				reported = append(reported, kill)
			}
			kill := record.Kill{At: time.Now(), Kills: 1, Scope: record.Own, Victims: test.victims}
			m.add(kill)
			m.report(kill, false)
			e := &record.Evidence{Signal: 9, EndedAt: kill.At, Kills: m.kills, OOMAfter: record.OOMCounters{Read: true, Kills: 1}}
			m.NameMain(e, &procstats.Sample{})
			if again := len(reported) > 1; again != test.again {
				t.Errorf("reported again: %v", reported)
			}
			last := reported[len(reported)-1]
			if !sameVictim(&last, &e.Kills[0]) {
				t.Errorf("reported %+v, the evidence has %+v", last.Victims, e.Kills[0].Victims)
			}
			if victim := record.Diagnose(*e).OOM.Victim; victim == nil || victim.PID != last.Victims[0].PID {
				t.Errorf("reported %+v, the record has %+v", last.Victims, victim)
			}
		})
	}
}

// TestGroupUncounted holds that a kill of a group as a whole is told as one before Linux 5.17, whose counter is of
// processes.
func TestGroupUncounted(t *testing.T) {
	dir := t.TempDir()
	m := &Monitor{watcher: &watcher{groups: groups{own: dir}}}
	for _, test := range []struct {
		group string
		scope record.Scope
		want  bool
	}{{"1", record.Own, true}, {"1", record.HostScope, true}, {"1", record.Descendant, false}, {"0", record.Own, false}} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "memory.oom.group"), []byte(test.group+"\n"), 0o600))
		if got := m.groupUncounted(test.scope); got != test.want {
			t.Errorf("memory.oom.group %s, scope %s: %v, want %v", test.group, test.scope, got, test.want)
		}
	}
}
