// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// endCase is one end of a task: how its main process ended, and what an OOM killer did meanwhile.
type endCase struct {
	name                string
	verdict             Verdict
	scope               Scope // empty for no kill, or for a kill of unknown scope
	kill, main          bool
	limit, peak, victim bool
}

const limitBytes, peakBytes = 48 << 20, 47 << 20

// secret stands wherever a text of others can be that has a path or a command line in it.
const secret = "/etc/secret --password"

// endCases are all verdicts × scopes × whether the main process was killed × what is known of the kill.
func endCases() (cases []endCase) {
	for _, verdict := range []Verdict{Completed, Failed, Signaled, Stopped, TimedOut, StartFailed, ExecutorLost} {
		cases = append(cases, endCase{name: string(verdict), verdict: verdict})
		for _, scope := range []Scope{Own, Descendant, Ancestor, HostScope, AncestorOrHost, ""} {
			for known := range 16 {
				bit := func(n int) bool { return known>>n&1 == 1 }
				c := endCase{verdict: verdict, scope: scope, kill: true, main: bit(0), limit: bit(1), peak: bit(2), victim: bit(3)}
				c.name = fmt.Sprintf("%s/%s/main=%v,limit=%v,peak=%v,victim=%v", verdict, scope, c.main, c.limit, c.peak, c.victim)
				cases = append(cases, c)
			}
		}
	}
	return cases
}

func (c endCase) evidence() Evidence {
	e := Evidence{Killers: []string{secret}, LastAge: 3100 * time.Millisecond, Last: &procstats.Sample{}}
	e.Last.SetNumber(procstats.TreeProcesses, 1)
	e.LastHeadlines = []procstats.HeadlineValue{
		{ID: procstats.HeadlineMemory, Reading: procstats.NumberReading(procstats.HeadlineMemory, 1.9*(1<<30))},
		{ID: procstats.HeadlineCores, Reading: procstats.NumberReading(procstats.HeadlineCores, 0.98)},
	}
	switch c.verdict {
	case Completed:
	case Failed:
		e.ExitCode = 3
	case Signaled:
		e.ExitCode, e.Signal = 137, sigkill
	case Stopped:
		e.Cause, e.Reason = Stopped, "the process that started it is gone"
	case TimedOut:
		e.Cause = TimedOut
	case StartFailed, ExecutorLost:
		e.Cause, e.Reason = c.verdict, secret
	}
	if !c.kill {
		return evidenceOf(e)
	}
	kill := Kill{At: ended(), Kills: 1, Scope: c.scope, Main: c.main, Others: !c.main, Where: secret, Reason: secret}
	if c.limit {
		kill.LimitBytes = new(int64(limitBytes))
	}
	if c.peak {
		kill.PeakBytes = new(int64(peakBytes))
	}
	if c.victim {
		kill.Victims = []Victim{{PID: 4712, Command: "python3", RSSBytes: new(int64(40 << 20)), Source: FromKmsg}}
	}
	return evidenceOf(e, kill)
}

func (c endCase) record() *Record {
	e := c.evidence()
	r := &Record{
		State: Exited, ExitCode: &e.ExitCode, Diagnosis: Diagnose(e), Command: []string{secret},
		Origin: Origin{Message: secret},
	}
	if e.Signal != 0 {
		r.Signal = &e.Signal
	}
	return r
}

// TestEnd holds what the words about an end say, for all that can be known of it.
func TestEnd(t *testing.T) {
	for _, c := range endCases() {
		t.Run(c.name, func(t *testing.T) {
			r := c.record()
			end := r.End()
			want := Outcome(c.verdict)
			if c.main {
				want = OOMKilled
			}
			testkit.Equal(t, end.Outcome, want, "outcome")
			if (end.LastReading == "3.1 s before: 1.9 GiB, 0.98 cores") == (c.verdict == Completed && !c.main) {
				t.Errorf("last reading %q of an end that is %q", end.LastReading, end.Outcome)
			}
			for what, present := range map[string]bool{"limit 48 MiB": c.limit, "peak 47 MiB": c.peak} {
				if strings.Contains(end.Summary, what) != present {
					t.Errorf("%q in %q: want %v", what, end.Summary, present)
				}
			}
			if strings.Contains(end.OOM, "python3[4712], 40 MiB resident (kernel log)") != c.victim || (end.OOM != "") != c.kill {
				t.Errorf("OOM kills %q", end.OOM)
			}
			if (end.Remedy != "") != (c.kill || c.verdict == Signaled) {
				t.Errorf("remedy %q", end.Remedy)
			}
			checkText(t, end)
		})
	}
}

// checkText holds what is true of every sentence about an end.
func checkText(t *testing.T, end End) {
	t.Helper()
	for _, text := range []string{end.Summary, end.OOM, end.LastReading, end.Remedy, end.Operator()} {
		if strings.ContainsAny(text, "\n\t%") || strings.Contains(text, "  ") || strings.HasSuffix(text, " ") || strings.HasSuffix(text, ".") {
			t.Errorf("badly built: %q", text)
		}
	}
	for _, text := range []string{end.Summary, end.Remedy} {
		if text != "" && !unicode.IsUpper(rune(text[0])) {
			t.Errorf("%q does not begin as a sentence", text)
		}
	}
	if end.Summary == "" {
		t.Error("no summary")
	}
}

// TestScopesDiffer holds that no two scopes read the same, in the summary and in what is said of the kill.
func TestScopesDiffer(t *testing.T) {
	summaries, kills := map[string]Scope{}, map[string]Scope{}
	for _, scope := range []Scope{Own, Descendant, Ancestor, HostScope, AncestorOrHost} {
		end := endCase{verdict: Signaled, scope: scope, kill: true, main: true}.record().End()
		for text, seen := range map[string]map[string]Scope{end.Summary: summaries, end.OOM: kills} {
			if other, twice := seen[text]; twice {
				t.Errorf("%s and %s: %q", scope, other, text)
			}
			seen[text] = scope
		}
	}
}

// TestRecordHasItsEnd holds that the sentences in the JSON are those of the describer, before and after the JSON.
func TestRecordHasItsEnd(t *testing.T) {
	for _, c := range endCases() {
		r := c.record()
		text := testkit.Value(json.Marshal(r))(t)
		decoded := &Record{}
		must(t, json.Unmarshal(text, decoded))
		for _, r := range []*Record{r, decoded} {
			end := r.End()
			got := [...]string{string(r.Diagnosis.Outcome), r.Diagnosis.Summary, r.Diagnosis.Operator}
			want := [...]string{string(end.Outcome), end.Summary, end.Operator()}
			testkit.Diff(t, c.name, want, got)
			if sentence := r.Sentence(); !strings.HasPrefix(sentence, end.Summary) || !strings.HasSuffix(sentence, end.LastReading) {
				t.Errorf("%s: %q, want it to have %+v", c.name, sentence, end)
			}
		}
	}
}

// TestRedacted holds that nothing of a command line or a path is left for untrusted callers, and all else is.
func TestRedacted(t *testing.T) {
	for _, c := range endCases() {
		full, r := c.record(), c.record().Redacted()
		text := testkit.Value(json.Marshal(r))(t)
		if strings.Contains(string(text), "secret") {
			t.Errorf("%s: the secret is in %s", c.name, text)
		}
		end := r.End()
		checkText(t, end)
		if end.Outcome != full.End().Outcome || end.OOM != full.End().OOM || end.LastReading != full.End().LastReading {
			t.Errorf("%s: %+v, want as much as of %+v", c.name, end, full.End())
		}
		if end.Summary != r.Diagnosis.Summary || end.Operator() != r.Diagnosis.Operator {
			t.Errorf("%s: the record says %q, %q", c.name, r.Diagnosis.Summary, r.Diagnosis.Operator)
		}
	}
}

// TestEndOfEarlierRecords is about records that have their sentences and not all facts for them.
func TestEndOfEarlierRecords(t *testing.T) {
	r := &Record{
		State: Exited, ExitCode: new(137), Signal: new(9),
		Diagnosis: Diagnosis{
			Verdict: Signaled, Summary: "killed by the kernel's OOM killer", Operator: "too low",
			OOM: OOM{Kills: new(int64(1)), Scope: Own, Notices: []Kill{{Main: true, Scope: Own, LimitBytes: new(int64(limitBytes))}}},
		},
	}
	want := End{
		Outcome: OOMKilled, Summary: "killed by the kernel's OOM killer", Remedy: "too low", OOM: "1 OOM kill at the task's own limit",
	}
	testkit.Diff(t, "end", want, r.End())
	testkit.Equal(t, r.Redacted().End().Summary, "Killed: out of memory (limit 48 MiB)", "redacted")
	running, lost := &Record{State: Running}, &Record{State: Lost}
	testkit.Equal(t, running.End(), (End{}), "a running task")
	if end := lost.End(); end.Summary == "" || end.Outcome != "" {
		t.Errorf("a lost run: %+v", end)
	}
}

// TestLastReading holds that a reading of a task without a process does not count.
func TestLastReading(t *testing.T) {
	sample := func(counts map[procstats.ID]float64) *procstats.Sample {
		s := &procstats.Sample{}
		for id, count := range counts {
			s.SetNumber(id, count)
		}
		return s
	}
	headline := func(id procstats.ID, value float64) procstats.HeadlineValue {
		return procstats.HeadlineValue{ID: id, Reading: procstats.NumberReading(id, value)}
	}
	memory, cores := headline(procstats.HeadlineMemory, 408<<10), headline(procstats.HeadlineCores, 0.5)
	none := procstats.HeadlineValue{ID: procstats.HeadlineCores, Reading: procstats.AbsentReading(procstats.HeadlineCores, "first sample")}
	for _, test := range []struct {
		name      string
		last      *procstats.Sample
		headlines []procstats.HeadlineValue
		want      string
	}{
		{"no sample", nil, nil, ""},
		{"not counted", sample(nil), []procstats.HeadlineValue{memory, cores}, "250 ms before: 408 KiB, 0.50 cores"},
		{"no process in the cgroup", sample(map[procstats.ID]float64{procstats.CgroupPidsCurrent: 0}), []procstats.HeadlineValue{memory}, ""},
		{"no process in the tree", sample(map[procstats.ID]float64{procstats.TreeProcesses: 0}), []procstats.HeadlineValue{memory}, ""},
		{
			"a process that left the cgroup", sample(map[procstats.ID]float64{procstats.CgroupPidsCurrent: 0, procstats.TreeProcesses: 1}),
			[]procstats.HeadlineValue{memory, none},
			"250 ms before: 408 KiB",
		},
		{"no memory", sample(nil), []procstats.HeadlineValue{cores}, "250 ms before: 0.50 cores"},
		{"no number", sample(nil), []procstats.HeadlineValue{none}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := evidenceOf(Evidence{ExitCode: 1, Last: test.last, LastHeadlines: test.headlines, LastAge: 250 * time.Millisecond})
			d := Diagnose(e)
			testkit.Equal(t, d.Operator, test.want, "operator")
			if _, given := d.Evidence["last_sample_age_seconds"]; given != (test.last != nil && Inhabited(test.last)) {
				t.Errorf("evidence %v", d.Evidence)
			}
		})
	}
}

func TestSentence(t *testing.T) {
	whole := &Record{
		State: Exited, WallSeconds: new(100.0), ExitCode: new(1),
		Diagnosis: Diagnosis{Verdict: Failed, Outcome: Outcome(Failed), OOM: OOM{Kills: new(int64(1))}},
		Headline: map[string]HeadlineValue{
			"memory_peak_bytes": {Value: new(203.0 * (1 << 20)), Guarantee: procstats.Exact},
			"cpu_seconds_total": {Value: new(341.2), Guarantee: procstats.Exact},
		},
		Measurements: map[string]any{
			"cgroup_memory_max_bytes":       float64(400 << 20),
			"psi_memory_some_seconds_total": 12.0, "psi_cpu_some_seconds_total": 3.0,
		},
	}
	killed := *whole
	killed.Diagnosis = Diagnose(evidenceOf(Evidence{ExitCode: 137, Signal: 9}, killOf(Own, ofMain)))
	completed := Diagnosis{Verdict: Completed, Outcome: Outcome(Completed)}
	for _, test := range []struct {
		name   string
		record *Record
		want   string
	}{
		{
			"everything", whole,
			"Failed with exit code 1; 1 OOM kill; peak 203 MiB of 400 MiB (exact), 5m41.2s of CPU time, waited 12 % of the time for memory",
		},
		{
			"killed: the peak is said once", &killed,
			"Killed: out of memory (limit 108 MiB, peak 108 MiB); 5m41.2s of CPU time, waited 12 % of the time for memory",
		},
		{"processes that outlived the main one", &Record{
			WallSeconds: new(0.01), SpanSeconds: new(10.0), Diagnosis: completed,
			Measurements: map[string]any{"psi_cpu_some_seconds_total": 3.0},
		}, "Completed with exit code 0; waited 30 % of the time for a CPU"},
		{"nothing measured", &Record{Diagnosis: completed}, "Completed with exit code 0"},
		{"a bound, no limit, a little CPU", &Record{
			Diagnosis: completed,
			Headline: map[string]HeadlineValue{
				"memory_peak_bytes": {Value: new(1.5 * (1 << 20)), Guarantee: procstats.UpperBound},
				"cpu_seconds_total": {Value: new(0.1234)},
			},
		}, "Completed with exit code 0; peak 1.5 MiB (upper bound), 123 ms of CPU time"},
		{"hardly any CPU", &Record{
			Diagnosis: completed, Headline: map[string]HeadlineValue{"cpu_seconds_total": {Value: new(0.002178)}},
		}, "Completed with exit code 0; 2.18 ms of CPU time"},
	} {
		testkit.Diff(t, test.name, test.want, test.record.Sentence())
	}
}

// TestRefusedForks explains the end of a task that a limit on processes kept from forking.
func TestRefusedForks(t *testing.T) {
	sample := func(refused float64, limit float64) *procstats.Sample {
		s := &procstats.Sample{}
		s.SetNumber(procstats.CgroupPidsEventsMax, refused)
		if limit > 0 {
			s.SetNumber(procstats.CgroupPidsMax, limit)
		}
		return s
	}
	oomKill := []Kill{{Main: true, Kills: 1, Scope: HostScope}}
	for _, test := range []struct {
		before, after, limit float64
		end                  Evidence
		want                 string
	}{
		{0, 1, 10, Evidence{ExitCode: 2}, "Failed with exit code 2 after 1 fork was refused by the pids limit of 10"},
		{4, 7, 10, Evidence{ExitCode: 2}, "Failed with exit code 2 after 3 forks were refused by the pids limit of 10"},
		{0, 3, 0, Evidence{ExitCode: 254}, "Failed with exit code 254 after 3 forks were refused by the pids limit of a parent cgroup"},
		{0, 2, 10, Evidence{ExitCode: 134, Signal: 6}, "Terminated by signal 6 (SIGABRT) after 2 forks were refused by the pids limit of 10"},
		{0, 5, 10, Evidence{}, "Completed with exit code 0; 5 forks were refused by the pids limit of 10"},
		{0, 5, 10, Evidence{Cause: TimedOut, Signal: 15}, "Timed out; 5 forks were refused by the pids limit of 10"},
		{0, 5, 10, Evidence{Cause: TimedOut, Signal: 9}, "Timed out, and killed because it did not exit in time; 5 forks were refused by the pids limit of 10"},
		{0, 1, 10, Evidence{Cause: Stopped, Reason: "it was told to"}, "Stopped because it was told to; 1 fork was refused by the pids limit of 10"},
		{0, 1, 10, Evidence{Cause: StartFailed}, "Start failed; 1 fork was refused by the pids limit of 10"},
		{0, 1, 10, Evidence{Cause: ExecutorLost, Reason: "it is gone"}, "Executor lost: it is gone; 1 fork was refused by the pids limit of 10"},
		{0, 1, 10, Evidence{Signal: 9, Kills: oomKill}, "Killed: the host ran out of memory; 1 fork was refused by the pids limit of 10"},
		{7, 7, 10, Evidence{ExitCode: 2}, "Failed with exit code 2"},
		{7, 7, 10, Evidence{}, "Completed with exit code 0"},
	} {
		e := test.end
		e.Before, e.After = sample(test.before, test.limit), sample(test.after, test.limit)
		e.OOMBefore, e.OOMAfter = OOMCounters{Read: true}, OOMCounters{Read: true, Kills: int64(len(e.Kills))}
		d := Diagnose(e)
		testkit.Equal(t, d.Summary, test.want, "result")
		if told := strings.Contains(d.Operator, "limit on processes"); told != (test.after > test.before && e.Kills == nil) {
			t.Errorf("%s: remedy %q", d.Summary, d.Operator)
		}
	}
}

// TestThrashing says what can be done if a task waited for memory, with how long it did and at which limit, and that it
// is no word for one that waited for a CPU meanwhile.
func TestThrashing(t *testing.T) {
	sample := func(seconds, waited, starved, met, slowed float64) *procstats.Sample {
		at := time.Duration(seconds * float64(time.Second))
		s := &procstats.Sample{Stamp: procstats.Stamp{Mono: at, Wall: time.Unix(0, int64(at))}}
		s.SetRead(procstats.SourceCgroup, s.Stamp)
		s.SetRead(procstats.SourcePSI, s.Stamp)
		for id, value := range map[procstats.ID]float64{
			procstats.CgroupCPUUsage: seconds / 10, procstats.PSIMemorySome: waited, procstats.PSICPUFull: starved,
			procstats.CgroupMemoryFailcnt: met, procstats.CgroupMemoryEventsHigh: slowed,
			procstats.CgroupMemoryMax: 40 << 20, procstats.CgroupMemoryHigh: 16 << 20,
		} {
			s.SetNumber(id, value)
		}
		return s
	}
	const reduce, others = " or reduce its memory use: it waited for memory for ", "A parent cgroup or the host has too little memory for its tasks: this one waited for memory for "
	for _, test := range []struct {
		waited, starved, met, slowed float64
		end                          Evidence
		want                         string
	}{
		{3.5, 0, 20, 0, Evidence{}, "Raise the task's memory limit of 40 MiB" + reduce + "3.5 s of 10 s"},
		{3.5, 0, 20, 7, Evidence{ExitCode: 1}, "Raise the task's memory.high of 16 MiB" + reduce + "3.5 s of 10 s"},
		{3.5, 0, 0, 0, Evidence{Cause: TimedOut}, others + "3.5 s of 10 s"},
		{3.5, 1, 20, 0, Evidence{}, "Raise the task's memory limit of 40 MiB" + reduce + "3.5 s of 10 s"},
		{1.5, 5, 20, 0, Evidence{}, ""},
		{0.9, 0, 20, 0, Evidence{}, ""},
		{3.5, 0, 20, 0, Evidence{Kills: []Kill{{Main: true, Kills: 1, Scope: HostScope}}}, HostScope.words().remedy},
	} {
		e := test.end
		e.Span, e.Before, e.After = 10*time.Second, sample(0, 1, 0, 3, 2), sample(10, 1+test.waited, test.starved, 3+test.met, 2+test.slowed)
		r := &Record{State: Exited, ExitCode: &e.ExitCode, Diagnosis: Diagnose(e)}
		for _, end := range []End{r.End(), r.Redacted().End()} {
			testkit.Equal(t, end.Remedy, test.want, "waited %v s, without a CPU %v s", test.waited, test.starved)
			checkText(t, end)
		}
		if advice := AdviseRuns([]*Record{r}); advice.MemoryMiB != nil && test.want != "" {
			t.Errorf("%q, and advised: %q", test.want, advice.Why)
		}
	}
}

func TestSamplingText(t *testing.T) {
	seconds := func(s float64) *float64 { return &s }
	measured := func(s float64) map[string]any { return map[string]any{"executor_sampling_interval_seconds": s} }
	for _, c := range []struct {
		record Record
		want   string
	}{
		{Record{}, ""},
		{Record{Sampling: Sampling{Interval: 1}}, "every 1 s"},
		{Record{Sampling: Sampling{Interval: 1, FirstInterval: 0.25}, WallSeconds: seconds(7)}, "every 250 ms"},
		{Record{Sampling: Sampling{Interval: 1, FirstInterval: 0.25}, WallSeconds: seconds(7), SpanSeconds: seconds(70)}, "every 250 ms in the first minute, then every 1 s"},
		{Record{Sampling: Sampling{Interval: 1, FirstInterval: 0.25}}, "every 250 ms in the first minute, then every 1 s"},
		{Record{Sampling: Sampling{Interval: 0.01}, WallSeconds: seconds(7), Measurements: measured(0.01)}, "every 10 ms"},
		{Record{Sampling: Sampling{Interval: 0.01}, WallSeconds: seconds(7), Measurements: measured(0.5)}, "every 10 ms, at the end every 500 ms"},
		{
			Record{Sampling: Sampling{Interval: 1, FirstInterval: 0.25}, WallSeconds: seconds(7), Measurements: measured(0.75)},
			"every 250 ms, at the end every 750 ms",
		},
	} {
		testkit.Equal(t, c.record.SamplingText(), c.want, "result")
	}
}
