// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package advice

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// loopVariable asks for the loop: all, or a part of the names of its programs.
const loopVariable = "TACHO_ADVICE_LOOP"

const (
	// mostPressure is the share of the time that a program may wait for memory, longer how much longer it may take, and
	// mostAbove by how much the advice may be above what is enough.
	mostPressure, longer, mostAbove = 0.10, 1.2, 1.5
	// delay is what a run may take longer, however short it is.
	delay = 20 * time.Millisecond
	// leastMiB is what is advised at least.
	leastMiB = 10
	// mostUnknown is how many programs may get no advice.
	mostUnknown = 6
	// mostRemedies is how often more data are gathered if there is no advice.
	mostRemedies = 4
	// often is how often a program is run within the advice, and a third of it within less.
	often = 10
	// apart is after how many runs within limits one without them follows.
	apart = 3
)

// bench is where a program runs.
type bench struct {
	program
	place   *rig.Place
	command []string
	shared  string // the prefix of its files in /dev/shm
	trials  int
	// waits and longer are the medians of what within saw last: the share of the time that was waited for memory, and the
	// time as a multiple of that without limits.
	waits, longer float64
}

func newBench(t *testing.T, p program) *bench {
	t.Helper()
	b := &bench{program: p, place: rig.NewPlace(t, rig.Self())}
	b.shared = fmt.Sprintf("/dev/shm/%s-", filepath.Base(filepath.Dir(b.place.Dir)))
	t.Cleanup(b.unshare)
	for i, mib := range p.files {
		block := make([]byte, mib*mebibyte)
		for at := range block {
			block[at] = byte(at * 7 >> 3)
		}
		f := testkit.Value(os.Create(b.place.Path(strconv.Itoa(i))))(t)
		testkit.Value(f.Write(block))(t)
		testkit.Must(t, f.Sync())
		testkit.Must(t, f.Close())
	}
	files := strings.NewReplacer("@", b.place.Dir+"/", "~", b.shared)
	b.command = []string{"/bin/sh", "-c", files.Replace(p.command)}
	if p.steps != "" {
		self := testkit.Value(os.ReadFile("/proc/self/exe"))(t)
		testkit.Must(t, os.WriteFile(b.place.Path("helper"), self, 0o755))
		b.command = append([]string{b.place.Path("helper")}, strings.Fields(files.Replace(p.steps))...)
	}
	return b
}

// unshare removes the files in /dev/shm.
func (b *bench) unshare() {
	files, _ := filepath.Glob(b.shared + "*")
	for _, file := range files {
		_ = os.Remove(file)
	}
}

// cool takes out of the page cache what only this program uses, and makes it load all by itself.
func (b *bench) cool(t *testing.T) {
	t.Helper()
	b.unshare()
	roots := []string{b.place.Dir}
	if b.steps == "" {
		roots = append(roots, programFiles()...)
	}
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && (entry.Type().IsRegular() || path == root) {
				drop(path)
			}
			return nil
		})
	}
}

// programFiles are where compilers and interpreters have their files.
func programFiles() []string {
	python, _ := filepath.Glob("/usr/*/python3*")
	return append([]string{
		"/usr/lib/gcc", "/usr/libexec/gcc", "/usr/lib/python3", "/usr/lib/jvm", "/usr/bin/node", "/usr/bin/perl",
		"/usr/bin/xz", "/usr/bin/sqlite3",
	}, python...)
}

func drop(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	_ = f.Sync()
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// load makes another process load what the program uses: this one.
func (b *bench) load(t *testing.T) {
	t.Helper()
	b.unshare()
	for name, mib := range b.shm {
		file := strings.Replace(name, "~", b.shared, 1)
		testkit.Must(t, os.WriteFile(file, make([]byte, mib*mebibyte), 0o600))
	}
	cmd := b.place.Command(t.Context(), b.command[0], b.command[1:]...)
	cmd.Env = append(cmd.Env, helperVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", b.command, err, out)
	}
	if len(b.shm) == 0 {
		b.unshare()
	}
	_ = filepath.WalkDir(b.place.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			_, err = os.ReadFile(path)
		}
		return err
	})
}

// prepare makes what the program finds in the page cache what its user has there.
func (b *bench) prepare(t *testing.T) {
	t.Helper()
	if b.cold {
		b.cool(t)
	} else {
		b.load(t)
	}
}

// run runs the program and returns its record.
func (b *bench) run(t *testing.T, dir string, flags ...string) *record.Record {
	t.Helper()
	out := b.place.Path(dir)
	args := append([]string{"run", "--quiet", "--output-dir", out}, flags...)
	cmd := b.place.Command(t.Context(), rig.Tacho(), append(append(args, "--"), b.command...)...)
	cmd.Env = append(cmd.Env, helperVariable+"=1")
	output, err := cmd.CombinedOutput()
	if _, ended := err.(*exec.ExitError); err != nil && !ended { //nolint:errorlint // as os/exec returns it
		t.Fatal(err)
	}
	runs := record.Whole(testkit.Value(record.ListBriefly(out))(t))
	if len(runs) == 0 {
		t.Fatalf("no record: %s", output)
	}
	return runs[0].Record
}

// advise asks for advice on all runs so far.
func (b *bench) advise(t *testing.T) record.Advice {
	t.Helper()
	cmd := b.place.Command(t.Context(), rig.Tacho(), "advise", "--output-dir", b.place.Out, "--format", "json")
	out, err := cmd.Output()
	testkit.Must(t, err)
	all := map[string]record.Advice{}
	testkit.Must(t, json.Unmarshal(out, &all))
	for _, a := range all {
		return a
	}
	t.Fatal("no advice at all")
	return record.Advice{}
}

// wall is the time of a run without that in which all of it waited for a CPU that others had.
func wall(r *record.Record) time.Duration {
	waited, _ := r.Measurements[procstats.PSICPUFull.String()].(float64)
	throttled, _ := r.Measurements[procstats.CgroupCPUThrottled.String()].(float64)
	return time.Duration((*r.WallSeconds - max(0, waited-throttled)) * float64(time.Second))
}

// pressure is the share of that time in which a run waited for memory. Of the time in which it had a reason to run, and
// others had the CPU, it waited for that.
func pressure(r *record.Record) float64 {
	number := func(id procstats.ID) float64 {
		n, _ := r.Measurements[id.String()].(float64)
		return n
	}
	waited, starved := number(procstats.PSIMemorySome), number(procstats.PSICPUFull)
	if cpu := r.Headline[procstats.HeadlineCPU.String()].Value; cpu != nil && starved > 0 {
		waited *= *cpu / (*cpu + starved)
	}
	return waited / wall(r).Seconds()
}

// within runs the program so often with limits and, in turn, without, each time on a cold cache, and says what speaks
// against them: anything killed, or a median of the runs that waits for memory or takes longer.
func (b *bench) within(t *testing.T, runs int, flags ...string) (fault string) {
	t.Helper()
	var usual, walls, waits []float64
	for i := range runs {
		if i%apart == 0 {
			// A hypervisor takes what is free (mm/page_reporting.c). The first run without limits waits to get it back; one
			// within them uses the same pages again.
			b.cool(t)
			b.run(t, "usual")
			b.cool(t)
			usual = append(usual, wall(b.run(t, "usual")).Seconds())
		}
		b.cool(t)
		b.trials++
		timeout := time.Duration((5 + 3*slices.Max(usual)) * float64(time.Second))
		r := b.run(t, fmt.Sprint("trial", b.trials), append(flags, "--timeout", timeout.String())...)
		switch {
		case r.Diagnosis.Verdict != record.Completed:
			return r.Diagnosis.Summary
		case r.Diagnosis.OOM.Kills == nil || *r.Diagnosis.OOM.Kills > 0:
			return "OOM kill in a pipeline"
		}
		walls, waits = append(walls, wall(r).Seconds()), append(waits, pressure(r))
	}
	b.waits, b.longer = median(waits), median(walls)/median(usual)
	switch {
	case b.waits > mostPressure:
		return fmt.Sprintf("waits for memory %.0f %%", 100*b.waits)
	case median(walls) > longer*median(usual)+delay.Seconds():
		return fmt.Sprintf("takes %.3f s, not %.3f", median(walls), median(usual))
	}
	return ""
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// enough is how many MiB are, by bisection below the advice.
func (b *bench) enough(t *testing.T, advice int64) int64 {
	t.Helper()
	low, high := int64(1), advice
	for high-low > max(1, high/12) {
		middle := (low + high) / 2
		if b.within(t, often/3, "--memory", fmt.Sprintf("%dM", middle)) == "" {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// TestAdviceLoop runs each program as its user would, takes the advice, and runs it within that on a cold cache.
func TestAdviceLoop(t *testing.T) {
	only := os.Getenv(loopVariable)
	if inGuest() && os.Getenv(dirVariable) != "" {
		only = "all" // of those that -run chooses
	}
	if only == "" {
		t.Skipf("it takes half an hour: set %s to all, or to a part of the names of programs", loopVariable)
	}
	rig.NeedMemory(t)
	held, unknown := 0, 0
	rows := []string{fmt.Sprintf("| %-11s | %-32s | %8s | %8s | %s", "class", "program", "advised", "enough", "within it")}
	for _, p := range programs() {
		if only != "all" && !strings.Contains(p.class+" "+p.name, only) || inGuest() && p.steps == "" {
			continue // a guest has a shell and no compilers or interpreters
		}
		t.Run(p.class+" "+p.name, func(t *testing.T) {
			row, none := newBench(t, p).follow(t)
			rows = append(rows, fmt.Sprintf("| %-11s | %-32s | %s", p.class, p.name, row))
			if none {
				unknown++
			}
			if none && !p.unknown {
				t.Error("no advice, and it was expected")
			}
			if !t.Failed() {
				held++
			}
		})
	}
	t.Logf("%d of %d programs held, %d of them without advice\n%s", held, len(rows)-1, unknown, strings.Join(rows, "\n"))
	if unknown > mostUnknown {
		t.Errorf("no advice for %d programs, more than %d", unknown, mostUnknown)
	}
}

var remedyLimit = regexp.MustCompile(`(?:with a memory limit of|\(try) (\d+) MiB\)?( and nothing of it in the page cache)?\.$`)

// remedy does what a reason for no advice says, and asks again.
func (b *bench) remedy(t *testing.T, why string) record.Advice {
	t.Helper()
	limit := remedyLimit.FindStringSubmatch(why)
	switch {
	case limit != nil:
		b.prepare(t)
		if limit[2] != "" {
			b.cool(t)
		}
		b.run(t, "out", "--memory", limit[1]+"M")
	case strings.HasSuffix(why, "Run it once when they are not in the page cache."):
		b.cool(t)
		b.run(t, "out")
	default:
		t.Fatalf("neither advice nor a remedy: %s", why)
	}
	return b.advise(t)
}

// costsTime reports whether there is no advice because any limit costs the program time: how much is for its user to say.
func costsTime(a record.Advice) bool {
	return a.MemoryMiB == nil && strings.Contains(a.Why[0], "so fast that a limit costs it time")
}

var costOf = regexp.MustCompile(`as ([0-9.]+) MiB did. Allow (\d+) MiB`)

// checkCost holds that the limit which is said to have cost time does, and that what is to be allowed does not.
func (b *bench) checkCost(t *testing.T, why string) {
	t.Helper()
	const leastWait, leastLonger = 0.02, 1.1
	words := costOf.FindStringSubmatch(why)
	if words == nil {
		t.Fatalf("neither what cost time nor what to allow: %s", why)
	}
	if fault := b.within(t, often, "--memory", words[2]+"M"); fault != "" {
		t.Errorf("with the %s MiB to allow: %s", words[2], fault)
	}
	fault := b.within(t, often/3, "--memory", words[1]+"M")
	if fault == "" && b.waits < leastWait && b.longer < leastLonger {
		t.Errorf("%s MiB cost no time, waits %.3f, takes %.2f: %s", words[1], b.waits, b.longer, why)
	}
}

// follow returns a row of the table, and whether there was no advice at first.
func (b *bench) follow(t *testing.T) (row string, none bool) {
	t.Helper()
	for range max(1, b.runs) {
		b.prepare(t)
		b.run(t, "out")
	}
	a := b.advise(t)
	first := ""
	for range mostRemedies {
		if a.MemoryMiB != nil || costsTime(a) {
			break
		}
		first = cmp.Or(first, ", first: "+a.Why[0])
		a = b.remedy(t, a.Why[0])
	}
	none = first != ""
	if costsTime(a) {
		b.checkCost(t, a.Why[0])
		return fmt.Sprintf("%8s | %8s | %s", "none", "", a.Why[0]), true
	}
	if a.MemoryMiB == nil {
		t.Errorf("no advice, whatever is done: %q", a.Why)
		return fmt.Sprintf("%8s | %8s | %s", "none", "", a.Why[0]), none
	}
	memory := *a.MemoryMiB
	if a.MemoryMaxMiB != nil {
		memory = *a.MemoryMaxMiB
	}
	flags := []string{"--memory", fmt.Sprintf("%dM", memory)}
	if a.QuotaCores != nil {
		flags = append(flags, "--cpu", fmt.Sprint(*a.QuotaCores))
	}
	result := ""
	if fault := b.within(t, often, flags...); fault != "" {
		t.Errorf("with %v: %s\n%s", flags, fault, strings.Join(a.Why, "\n"))
		result = fault
	} else {
		result = fmt.Sprintf("held, waits %.0f %%, takes %.2f", 100*b.waits, b.longer)
	}
	below := int64(float64(memory) / mostAbove)
	enough := fmt.Sprintf("> %d", below)
	if memory > leastMiB && b.within(t, often, "--memory", fmt.Sprintf("%dM", below)) == "" { // as the advice is held
		least := b.enough(t, below)
		if enough = strconv.FormatInt(least, 10); float64(memory) > max(leastMiB, mostAbove*float64(least)) {
			t.Errorf("advised %d MiB, enough are %d\n%s", memory, least, strings.Join(a.Why, "\n"))
		}
	}
	cores := ""
	if a.Cores != nil {
		cores = fmt.Sprintf(", %.2f cores", *a.Cores)
	}
	if a.QuotaCores != nil {
		cores += fmt.Sprintf(", a quota of %.2f", *a.QuotaCores)
	}
	return fmt.Sprintf("%4d MiB | %8s | %s%s%s", memory, enough, result, cores, first), none
}
