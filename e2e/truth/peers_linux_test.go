// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/e2e/truth"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// used is what a tool says that a workload used: CPU time, and the most memory.
type used struct{ seconds, bytes float64 }

// peer is a tool that others measure with.
type peer struct {
	name string
	// version is a command that prints the version.
	version []string
	// around is put in front of the workload; said reads what it said on stderr.
	around []string
	said   func(stderr string) used
	// sample reads a process and its descendants, if the tool samples; once a second, as most do by default.
	sample func(t *testing.T, pid int) used
}

func peers() []peer {
	return []peer{
		{
			name: "GNU time", version: []string{"sh", "-c", "dpkg-query -W time || time --version"},
			around: []string{"time", "-q", "-f", "%U %S %M"},
			said: func(stderr string) used {
				lines := strings.Split(strings.TrimSpace(stderr), "\n")
				fields := append(strings.Fields(lines[len(lines)-1]), "", "", "")
				return used{number(fields[0]) + number(fields[1]), number(fields[2]) * 1024}
			},
		},
		{name: "ps of procps-ng", version: []string{"ps", "--version"}, sample: psTree},
		{name: "psutil", version: []string{"/usr/bin/python3", "-c", "import psutil; print('psutil', psutil.__version__)"}, sample: psutilTree},
		{name: "gopsutil", version: []string{"go", "list", "-m", "github.com/shirou/gopsutil/v4"}, sample: gopsutilTree},
	}
}

func number(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}

// psTree adds up what ps lists of a process and its descendants.
func psTree(t *testing.T, pid int) (sum used) {
	out, _ := exec.CommandContext(t.Context(), "ps", "-e", "-o", "pid=,ppid=,cputimes=,rss=").Output()
	members := map[string]bool{strconv.Itoa(pid): true}
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 4 && (members[f[0]] || members[f[1]]) {
			members[f[0]] = true
			sum.seconds, sum.bytes = sum.seconds+number(f[2]), sum.bytes+1024*number(f[3])
		}
	}
	return sum
}

// psutilTree is what psrecord --include-children and its like read.
func psutilTree(t *testing.T, pid int) used {
	const script = `
import psutil, sys
p = psutil.Process(int(sys.argv[1]))
cpu = rss = 0
for q in [p] + p.children(recursive=True):
    try: t = q.cpu_times(); cpu += t.user + t.system; rss += q.memory_info().rss
    except psutil.Error: pass
print(cpu, rss)`
	out, _ := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", script, strconv.Itoa(pid)).Output()
	f := append(strings.Fields(string(out)), "", "")
	return used{number(f[0]), number(f[1])}
}

// gopsutilTree is what Nomad's raw_exec reads, among many.
func gopsutilTree(t *testing.T, pid int) (sum used) {
	var add func(p *process.Process)
	add = func(p *process.Process) {
		if times, err := p.TimesWithContext(t.Context()); err == nil {
			sum.seconds += times.User + times.System
		}
		if memory, err := p.MemoryInfoWithContext(t.Context()); err == nil {
			sum.bytes += float64(memory.RSS)
		}
		children, _ := p.ChildrenWithContext(t.Context())
		for _, child := range children {
			add(child)
		}
	}
	if p, err := process.NewProcess(int32(pid)); err == nil {
		add(p)
	}
	return sum
}

// versionOf returns the version of a tool; empty if it is not here.
func (p peer) versionOf() string {
	out, _ := exec.Command(p.version[0], p.version[1:]...).CombinedOutput()
	return regexp.MustCompile(`[0-9]+(\.[0-9]+)+[-.0-9]*`).FindString(string(out))
}

// measure runs a workload and returns what the tool says.
func (p peer) measure(t *testing.T, place *rig.Place, workload []string) (said used) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	command := append(p.around, workload...)
	cmd := place.Command(ctx, command[0], command[1:]...)
	if p.sample == nil {
		return p.said(rig.Capture(t, cmd).Stderr)
	}
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for tick := time.NewTicker(time.Second); ; {
		select {
		case err := <-ended:
			must(t, err)
			return said
		case <-tick.C:
			now := p.sample(t, cmd.Process.Pid)
			said.seconds, said.bytes = max(said.seconds, now.seconds), max(said.bytes, now.bytes)
		}
	}
}

// TestPeers logs what other tools say of workloads that know their truth, beside tacho: "make truth-peers". It holds
// tacho to the truth only: what others say is theirs.
func TestPeers(t *testing.T) {
	rig.Require(t)
	if os.Getenv("TACHO_PEERS") == "" {
		t.Skip("make truth-peers")
	}
	table := "| workload | tool | CPU time | most memory |\n|---|---|---|---|\n"
	for _, workload := range []string{"churn", "shared", "cache", "spike"} {
		place := rig.NewPlace(t, rig.Self())
		command := []string{rig.Workload(), "-truth", place.Path("truth"), "-dir", place.Dir, workload}
		row := func(tool string, u used) {
			table += fmt.Sprintf("| %s | %s | %s | %s |\n", workload, tool, procstats.Seconds.Text(u.seconds), procstats.Bytes.Text(u.bytes))
		}
		out := rig.Capture(t, place.Run(t.Context(), append([]string{"--interval", "1s", "--"}, command...)...))
		if out.Code != 0 {
			t.Fatalf("%s: exit code %d: %s", workload, out.Code, out.Stderr)
		}
		known, r := testkit.Value(truth.Read(place.Path("truth")))(t), place.TheRun(t).Record
		m := known.Memory
		memory := float64(*cmp.Or(m.Spike, m.Shared, m.Anon, new(int64)))
		row("the truth", used{known.CPU.Total, memory})
		cpu, peak := r.Number("cpu_seconds_total"), r.Number("memory_peak_bytes")
		if cpu.Value == nil || peak.Value == nil {
			t.Fatalf("%s: CPU %v, memory %v", workload, cpu, peak)
		}
		row("tacho", used{*cpu.Value, *peak.Value})
		within(t, workload, *cpu.Value, known.CPU.Total)
		for _, p := range peers() {
			if version := p.versionOf(); version != "" {
				row(p.name+" "+version, p.measure(t, place, command))
			} else {
				row(p.name+", not here", used{})
			}
		}
	}
	t.Log("peers:\n" + table)
}
