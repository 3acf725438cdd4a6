// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// kind is a way in which a label can be false.
type kind string

const (
	notExact   kind = "exact, and off"
	tooHigh    kind = "lower bound too high"
	tooLow     kind = "upper bound too low"
	impossible kind = "sampled, impossible"
	falseZero  kind = "0 for what is not known"
	notClosed  kind = "sum not closed"
	below0     kind = "unattributed below 0"
	missing    kind = "absent without a reason"
	failed     kind = "run failed"
)

// falsehood is one false label.
type falsehood struct {
	kind kind
	// what is the headline, and text says what is wrong with it.
	what, text string
}

// claim is a number that tacho published, and what is known of the truth: it is between least and most, and slack is
// how exactly that is known.
type claim struct {
	what        string
	value       float64
	guarantee   procstats.Guarantee
	source      string
	unit        procstats.Unit
	least, most float64
	slack       float64
}

// check returns what is false about a claim.
func (c claim) check() []falsehood {
	high, low := c.value > c.most+c.slack, c.value < c.least-c.slack
	var k kind
	switch {
	case math.IsNaN(c.value):
		return nil
	case low && c.value == 0:
		k = falseZero
	case (high || low) && c.guarantee == procstats.Exact:
		k = notExact
	case high && c.guarantee == procstats.LowerBound:
		k = tooHigh
	case low && c.guarantee == procstats.UpperBound:
		k = tooLow
	case (high || low) && c.guarantee == procstats.Sampled:
		k = impossible
	case c.guarantee == "":
		return []falsehood{{missing, c.what, "it has no guarantee"}}
	default:
		return nil
	}
	return []falsehood{{k, c.what, fmt.Sprintf("%s %s (%s), true %s to %s", c.guarantee, quantity(c.value, c.unit), c.source,
		quantity(c.least, c.unit), quantity(c.most, c.unit))}}
}

// of fills a claim with a headline.
func (c claim) of(headlines map[string]record.HeadlineValue) []falsehood {
	h, found := headlines[c.what]
	switch {
	case !found:
		return nil
	case h.Value == nil && h.Reason == "":
		return []falsehood{{missing, c.what, "it has neither a value nor a reason"}}
	case h.Value == nil:
		return nil
	}
	c.value, c.guarantee, c.source = *h.Value, h.Guarantee, h.Source
	return c.check()
}

// around returns the least and the most of what is known to 1 %, or to so much.
func around(value, atLeast float64) (slack float64) { return max(atLeast, value/100) }

// checkRecord returns what is false in a record.
func (f facts) checkRecord(r *record.Record) []falsehood {
	var all []falsehood
	for _, c := range f.claims(r) {
		all = append(all, c.of(r.Headline)...)
	}
	for name, h := range r.Headline {
		if h.Value != nil && *h.Value == 0 && h.Guarantee == procstats.LowerBound {
			all = append(all, falsehood{falseZero, name, "a lower bound of 0"})
		}
	}
	return append(append(all, f.checkThrottled(r)...), f.checkSums(r)...)
}

// checkThrottled returns what is false about what a quota above the task's cgroup did.
func (f facts) checkThrottled(r *record.Record) []falsehood {
	const name = "cgroup_cpu_ancestor_throttled_seconds_total"
	row, _ := procstats.LookupName(name)
	value, measured := r.Measurements[name].(float64)
	if !measured {
		return nil
	}
	return claim{
		what: name, value: value, guarantee: row.Guarantee, source: name, unit: procstats.Seconds,
		// The kernel counts a throttling when it ends, which can be after the task's end: at most a period on each CPU.
		least: max(0, f.throttled-rig.QuotaPeriod.Seconds()*f.cpus), most: f.throttled, slack: around(f.throttled, cpuSlack),
	}.check()
}

// claims are what is known of the headlines of a whole run.
func (f facts) claims(r *record.Record) []claim {
	least, most := f.span()
	all := []claim{
		{what: "cpu_seconds_total", unit: procstats.Seconds, least: f.cpu, most: f.cpu, slack: f.slack},
		{
			what: "cpu_cores_average", least: max(0, f.cpu-f.slack) / most, most: min((f.cpu+f.slack)/least, f.cpus),
			slack: 0.01 * f.cpu / least,
		},
		{what: "cpu_cores", least: 0, most: f.cpus, slack: 0.05 * f.cpus},
	}
	if f.peak > 0 {
		all = append(all,
			f.peakClaim(r.Headline["memory_peak_bytes"]),
			claim{what: "memory_bytes", unit: procstats.Bytes, most: f.mostMemory(r.Headline["memory_bytes"].Source), slack: mib},
			claim{what: "memory_charged_bytes", unit: procstats.Bytes, least: 0, most: f.peak, slack: mib},
		)
	}
	if f.whole {
		all = append(all, f.ioClaims(r.Headline["io_write_bytes_total"].Guarantee)...)
	}
	return all
}

// peakClaim is what is known of the peak: a cgroup's has the page cache, and one from processes has what no cgroup is
// charged for.
func (f facts) peakClaim(h record.HeadlineValue) claim {
	c := claim{what: "memory_peak_bytes", unit: procstats.Bytes, most: f.mostMemory(h.Source), slack: around(f.peak, mib)}
	c.least = max(f.most, f.peak-f.overhead)
	if !strings.HasPrefix(h.Source, "cgroup_") {
		c.least = f.most
		if h.Guarantee == procstats.UpperBound {
			c.least += f.beside
		}
	}
	return c
}

// mostMemory is the most that the task can have held, as counted by a source: processes have what their cgroup is not
// charged for.
func (f facts) mostMemory(source string) float64 {
	if strings.HasPrefix(source, "cgroup_") {
		return f.peak
	}
	return f.peak + f.brought + f.beside + textSlack
}

// textSlack is what processes map of files that were in the page cache before the task, and are charged elsewhere.
const textSlack = 4 * mib

// ioClaims are what is known of reading from and writing to the disk.
func (f facts) ioClaims(written procstats.Guarantee) []claim {
	read := claim{
		what: "io_read_bytes_total", unit: procstats.Bytes, least: f.loaded * 0.9, most: f.read, slack: storageSlack,
	}
	// Programs and libraries are read too, and ahead.
	read.most += 16 * mib
	write := claim{
		what: "io_write_bytes_total", unit: procstats.Bytes, least: f.stored, most: f.handed, slack: around(f.handed, storageSlack),
	}
	switch written {
	case procstats.LowerBound:
		write.most -= f.dropped
	case procstats.Exact:
		write.least, write.most = f.handed-f.dropped, f.handed-f.dropped
	}
	handed := claim{
		what: "io_write_handed_bytes_total", unit: procstats.Bytes, least: f.handed, most: f.handed, slack: write.slack,
	}
	pending := claim{what: "io_write_pending_bytes", unit: procstats.Bytes, least: 0, most: f.handed, slack: write.slack}
	return []claim{read, write, handed, pending}
}

// checkSums returns the sums in a record that do not close.
func (f facts) checkSums(r *record.Record) []falsehood {
	all := closing("info.json", r.Processes)
	value := func(name string) float64 {
		if v, ok := r.Measurements[name].(float64); ok {
			return v
		}
		return math.NaN()
	}
	sum := value("tree_cpu_live_seconds") + value("tree_cpu_exited_seconds_total") + value("tree_cpu_unattributed_seconds")
	total := math.NaN()
	if p := r.Processes; p != nil && p.TotalCPUSeconds != nil {
		total = *p.TotalCPUSeconds
	}
	if math.Abs(sum-total) > 1e-6 {
		all = append(all, falsehood{notClosed, "tree_cpu_*", fmt.Sprintf("live, exited and unattributed are %.6f s, total %.6f s", sum, total)})
	}
	return all
}

// closing checks that rows, exited and unattributed are the total, and that no more is attributed than there was.
func closing(where string, p *record.Processes) []falsehood {
	if p == nil || p.TotalCPUSeconds == nil || p.UnattributedCPUSeconds == nil {
		return nil
	}
	return sumsUp(where, rowsCPU(p.Rows), p.Exited, *p.UnattributedCPUSeconds, *p.TotalCPUSeconds)
}

func sumsUp(where string, rows float64, exited record.ProcessSum, unattributed, total float64) []falsehood {
	rows += exitedCPU(exited)
	var all []falsehood
	if !same(rows+unattributed, total) {
		all = append(all, falsehood{notClosed, where, fmt.Sprintf("rows, exited and unattributed are %.6f s, total %.6f s",
			rows+unattributed, total)})
	}
	if unattributed < -max(0.002, total/200) {
		all = append(all, falsehood{below0, where, fmt.Sprintf("unattributed %.4f s of %.4f s", unattributed, total)})
	}
	return all
}

// reportSums is closing for a line of usage.jsonl; known is false if it has no sums.
func reportSums(u *record.Usage) (wrong []falsehood, known bool) {
	p := u.Processes
	if p == nil || p.TotalCPUSeconds == nil || p.UnattributedCPUSeconds == nil {
		return nil, false
	}
	var rows float64
	for _, row := range p.Rows {
		if used := row.Measurements["process_cpu_seconds_total"].Last; used != nil {
			rows += *used
		}
	}
	return sumsUp("usage.jsonl", rows, p.Exited, *p.UnattributedCPUSeconds, *p.TotalCPUSeconds), true
}

// checkReport returns what is false in a line of usage.jsonl.
func (f facts) checkReport(u *record.Usage) []falsehood {
	all, _ := reportSums(u)
	claims := []claim{
		{what: "cpu_seconds_total", unit: procstats.Seconds, least: 0, most: f.cpu, slack: f.slack},
		{what: "cpu_cores", least: 0, most: f.cpus, slack: 0.05 * f.cpus},
	}
	if f.peak > 0 {
		memory := claim{
			what: "memory_bytes", unit: procstats.Bytes, most: f.mostMemory(u.Headline["memory_bytes"].Source), slack: around(f.peak, mib),
		}
		if f.whole && f.heldFrom > 0 && u.ToMono > f.heldFrom+f.lag && u.ToMono < f.heldTo-f.lag { // a sample is stamped before it is read
			memory.least = f.held
			if u.Headline["memory_bytes"].Guarantee == procstats.UpperBound && !strings.HasPrefix(u.Headline["memory_bytes"].Source, "cgroup_") {
				memory.least += f.beside
			}
		}
		claims = append(claims, memory)
	}
	for _, c := range claims {
		for _, wrong := range c.of(u.Headline) {
			wrong.what += " in usage.jsonl"
			all = append(all, wrong)
		}
	}
	return all
}

// TestClaims holds each kind of false label, and its true neighbour.
func TestClaims(t *testing.T) {
	truth := facts{
		cpu: 1, slack: 0.02, cpus: 2, peak: 100 * mib, most: 60 * mib, held: 50 * mib, beside: 10 * mib, overhead: mib,
		handed: 40 * mib, stored: 10 * mib, dropped: 20 * mib, inner: 1, whole: true, heldFrom: 10, heldTo: 20,
	}
	tests := []struct {
		what      string
		value     float64
		guarantee procstats.Guarantee
		source    string
		want      kind
	}{
		{"cpu_seconds_total", 1.019, procstats.Exact, "cgroup_cpu_usage_seconds_total", ""},
		{"cpu_seconds_total", 1.03, procstats.Exact, "cgroup_cpu_usage_seconds_total", notExact},
		{"cpu_seconds_total", 0.5, procstats.LowerBound, "tree_cpu_seconds_total", ""},
		{"cpu_seconds_total", 1.1, procstats.LowerBound, "tree_cpu_seconds_total", tooHigh},
		{"cpu_seconds_total", 0, procstats.LowerBound, "tree_cpu_seconds_total", falseZero},
		{"cpu_seconds_total", 1, "", "tree_cpu_seconds_total", missing},
		{"cpu_cores", 3, procstats.Exact, "cgroup_cpu_usage_seconds_total", notExact},
		{"cpu_cores_average", 0.7, procstats.Exact, "cgroup_cpu_usage_seconds_total", notExact},
		{"cpu_cores_average", 0.95, procstats.Exact, "cgroup_cpu_usage_seconds_total", ""},
		{"memory_peak_bytes", 99 * mib, procstats.Exact, "cgroup_memory_peak_bytes", ""},
		{"memory_peak_bytes", 80 * mib, procstats.Exact, "cgroup_memory_peak_bytes", notExact},
		{"memory_peak_bytes", 50 * mib, procstats.UpperBound, "rusage_maxrss_bytes", tooLow},
		{"memory_peak_bytes", 62 * mib, procstats.UpperBound, "rusage_maxrss_bytes", tooLow},
		{"memory_peak_bytes", 75 * mib, procstats.UpperBound, "rusage_maxrss_bytes", ""},
		{"memory_peak_bytes", 300 * mib, procstats.Sampled, "tree_rss_bytes", impossible},
		{"memory_bytes", 300 * mib, procstats.Sampled, "tree_rss_bytes", impossible},
		{"io_write_bytes_total", 40 * mib, procstats.LowerBound, "tree_io_write_bytes_total", tooHigh},
		{"io_write_bytes_total", 20 * mib, procstats.LowerBound, "tree_io_write_bytes_total", ""},
		{"io_write_bytes_total", 10 * mib, procstats.Exact, "cgroup_io_write_bytes_total", notExact},
		{"io_write_bytes_total", 0, procstats.Exact, "cgroup_io_write_bytes_total", falseZero},
		{"io_write_bytes_total", 0, procstats.LowerBound, "tree_io_stored_bytes_total", falseZero},
		{"io_read_bytes_total", 0, procstats.LowerBound, "tree_io_read_bytes_total", falseZero},
		{"io_write_handed_bytes_total", 0, procstats.LowerBound, "tree_io_write_bytes_total", falseZero},
		{"io_write_handed_bytes_total", 50 * mib, procstats.LowerBound, "tree_io_write_bytes_total", tooHigh},
		{"io_write_bytes_total", 15 * mib, procstats.Sampled, "cgroup_io_write_bytes_total", ""},
	}
	for _, test := range tests {
		r := &record.Record{Headline: map[string]record.HeadlineValue{
			test.what: {Value: &test.value, Guarantee: test.guarantee, Source: test.source},
		}}
		var got kind
		for _, wrong := range truth.checkRecord(r) {
			got = wrong.kind
		}
		testkit.Equal(t, got, test.want, "%s %g, %s (%s): found", test.what, test.value, test.guarantee, test.source)
	}
}

// TestSums holds sums that do not close, and one that does.
func TestSums(t *testing.T) {
	for _, test := range []struct {
		rows, exited, unattributed, total float64
		want                              kind
	}{{0.5, 0.3, 0.2, 1, ""}, {0.5, 0.3, 0.1, 1, notClosed}, {0.6, 0.401, -0.001, 1, ""}, {0.6, 0.41, -0.01, 1, below0}} {
		p := &record.Processes{
			Rows:                   []record.ProcessRow{{Measurements: map[string]any{"process_cpu_seconds_total": test.rows}}},
			Exited:                 record.ProcessSum{CPUSeconds: &test.exited},
			UnattributedCPUSeconds: &test.unattributed, TotalCPUSeconds: &test.total,
		}
		var got kind
		for _, wrong := range closing("info.json", p) {
			got = wrong.kind
		}
		testkit.Equal(t, got, test.want, "%+v: found", test)
	}
}
