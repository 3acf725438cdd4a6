// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

const (
	webID   = "11111111-2222-4333-8444-555555555555"
	batchID = "11aaaaaa-2222-4333-8444-555555555555"
	nodeID  = "99999999-8888-4777-8666-555555555555"
	// secret stands in everything that only trusted callers may see.
	secret = "hunter2"
)

// epoch is the fake's present.
var epoch = time.Date(2026, 8, 12, 10, 0, 0, 0, time.UTC)

// fakeAgent has a service that runs and a batch job that failed, and records what it is asked to do.
type fakeAgent struct {
	mu         sync.Mutex
	publishing bool
	jobs       []*snapshot.Job
	allocs     []*allocation.Allocation
	feed       *snapshot.Feed
	calls      []string
	err        error
	unhealthy  error
	port       int
	// reason is why there are no fresh readings, and why the driver is not healthy.
	reason string
	exec   *fakeExec
	// rows changes the process rows of every reading; nil leaves them.
	rows func(*procstats.Sample)
}

func newFake() *fakeAgent {
	f := &fakeAgent{publishing: true, feed: snapshot.NewFeed(100, 40), port: 4656}
	web, batch := fakeJob("web", job.TypeService), fakeJob("nightly", job.TypeBatch)
	f.jobs = []*snapshot.Job{
		{Job: batch, Status: "dead", SubmitTime: epoch.Add(-2 * time.Hour), CreateIndex: 5, ModifyIndex: 9},
		{Job: web, Version: 2, Status: "running", SubmitTime: epoch.Add(-time.Hour), CreateIndex: 10, ModifyIndex: 20},
	}
	f.allocs = []*allocation.Allocation{fakeAlloc(webID, web, true), fakeAlloc(batchID, batch, false)}
	return f
}

func fakeJob(id, kind string) *job.Job {
	return &job.Job{
		ID: id, Name: id, Namespace: "default", Region: "global", Type: kind, Priority: 50, Datacenters: []string{"dc1"},
		Meta: map[string]string{"owner": secret},
		Groups: []*job.Group{{
			Name: "cache", Count: 1, Meta: map[string]string{"x": secret},
			Restart: job.Restart{Attempts: 2, Interval: 30 * time.Minute, Delay: 15 * time.Second, Mode: "fail"},
			Tasks: []*job.Task{{
				Name: "web", Driver: "tacho", User: secret, Config: map[string]any{"command": "/bin/" + secret},
				Env: map[string]string{"PASSWORD": secret}, Meta: map[string]string{"y": secret},
				Resources: job.Resources{CPU: 500, MemoryMB: 256}, KillTimeout: 5 * time.Second,
				Templates: []*job.Template{{Data: secret, Destination: "local/x"}},
			}},
		}},
		Source: job.Source{Filename: id + ".nomad.hcl", Text: "job \"" + id + "\" { # " + secret},
	}
}

func fakeAlloc(id string, j *job.Job, running bool) *allocation.Allocation {
	started := epoch.Add(-10 * time.Minute)
	t := &allocation.Task{
		Name: "web", Driver: "tacho", Resources: j.Groups[0].Tasks[0].Resources, RunID: "run-" + secret,
		State: hook.State{Phase: hook.PhaseRunning, Restarts: 1, LastRestart: started, StartedAt: started},
		Events: []allocation.Event{
			{Type: hook.EventSetup, Time: started.Add(-time.Second), Message: "Building the directory of " + secret},
			{Type: hook.EventTerminated, Time: started.Add(-time.Minute), Message: "lost: " + secret},
			{Type: hook.EventStarted, Time: started, Message: "Started /bin/" + secret, Details: map[string]string{"command": secret}},
		},
		Attributes: map[string]string{"pid": "4711", "cgroup": "/sys/fs/cgroup/" + secret},
	}
	a := &allocation.Allocation{
		ID: id, Namespace: "default", JobID: j.ID, JobType: j.Type, Group: "cache", Name: j.ID + ".cache[0]",
		NodeID: nodeID, NodeName: "node1", ClientStatus: allocation.Running, Description: "Tasks are running " + secret,
		DesiredStatus: allocation.DesiredRun, CreateTime: started.Add(-time.Minute), ModifyTime: started,
		CreateIndex: 11, ModifyIndex: 21, Tasks: map[string]*allocation.Task{"web": t},
	}
	if !running {
		end := epoch.Add(-5 * time.Minute)
		a.ClientStatus, t.NoLogs = allocation.Failed, true
		t.State.Phase, t.State.Failed, t.State.FinishedAt = hook.PhaseDead, true, end
		t.State.Exit = &hook.Exit{Code: 137, Signal: 9, OOMKilled: true, At: end}
		t.Events = append(t.Events, allocation.Event{
			Type: hook.EventTerminated, Time: end, Message: t.State.Exit.String(),
			Details: map[string]string{"cgroup_memory_events_oom_kill_total": "1"},
		}, allocation.Event{
			Type: allocation.EventDriver, Time: end, Message: "Terminated by signal 9 (SIGKILL); " + secret + " may have sent it",
			Redacted: "Terminated by signal 9 (SIGKILL)", Details: map[string]string{"operator": secret},
		})
	}
	return a
}

// fakeUsage is a reading one second old.
func fakeUsage(running bool) *figures.Figures {
	at := procstats.Stamp{Mono: 1000 * time.Second, Wall: epoch.Add(-time.Second)}
	s := &procstats.Sample{Stamp: at}
	s.SetRead(procstats.SourceCgroup, at)
	s.SetRead(procstats.SourcePSI, at)
	s.SetRead(procstats.SourceTree, at)
	for id, v := range map[procstats.ID]float64{
		procstats.CgroupCPUUsage: 12.5, procstats.CgroupCPUUser: 10, procstats.CgroupCPUSystem: 2.5,
		procstats.CgroupMemoryCurrent: 64 << 20, procstats.CgroupMemoryPeak: 96 << 20, procstats.CgroupMemoryAnon: 32 << 20,
		procstats.CgroupMemoryFile: 16 << 20, procstats.CgroupMemoryActiveFile: 1 << 20, procstats.CgroupMemoryInactiveFile: 15 << 20,
		procstats.CgroupMemoryFileMapped: 4 << 20, procstats.CgroupMemoryEventsOOMKill: 3, procstats.PSIMemoryFull: 0.25,
		procstats.PSIMemorySome: 0.5, procstats.TreeProcesses: 2, procstats.CgroupCPUWeight: 100,
	} {
		s.SetNumber(id, v)
	}
	s.SetAbsent(procstats.CgroupMemoryMax, procstats.ReasonNoLimit)
	s.SetAbsent(procstats.DiskUsage, "open: permission denied")
	p := s.AddProcess(procstats.ProcessID{PID: 4711, Start: 12345})
	p.PPID, p.Command = 1, "server"
	p.Readings.Put(procstats.NumberReading(procstats.ProcessCPU, 12))
	p.Readings.Put(procstats.TextReading(procstats.ProcessState, "S"))
	p.Readings.Put(procstats.TextReading(procstats.ProcessCmdline, "server --password "+secret))
	before := s.Clone()
	before.Mono, before.Wall = at.Mono-time.Second, at.Wall.Add(-time.Second)
	before.SetRead(procstats.SourceCgroup, before.Stamp)
	before.SetRead(procstats.SourceTree, before.Stamp)
	before.SetNumber(procstats.CgroupCPUUsage, 12)
	before.SetNumber(procstats.CgroupCPUUser, 9.75)
	before.SetNumber(procstats.CgroupCPUSystem, 2.25)
	before.Processes[0].Readings.Put(procstats.NumberReading(procstats.ProcessCPU, 11.5))
	return &figures.Figures{
		Running: running, Sample: s, Before: before, Interval: time.Second, Backlogged: 1,
		Headlines: procstats.Headlines(s, procstats.History{Previous: before, Elapsed: 10 * time.Minute}),
	}
}

// writeLog appends to the log of the task that runs.
func (f *fakeAgent) writeLog(t testing.TB, text string) {
	t.Helper()
	dir := f.allocs[0].Dir.Logs()
	testkit.Must(t, os.MkdirAll(dir, 0o700))
	file, err := os.OpenFile(filepath.Join(dir, "web.stdout.0"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	testkit.Must(t, err)
	if _, err := file.WriteString(text); err != nil {
		t.Error(err)
	}
	testkit.NoError(t, file.Close())
}

func (f *fakeAgent) note(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	return f.err
}

func (f *fakeAgent) called() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

func (f *fakeAgent) Snapshot(...string) *snapshot.Agent {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := &snapshot.Agent{
		Index: f.feed.Index(), Config: f.config(), Node: f.node(), Jobs: f.jobs, Allocations: f.allocs,
		Usages: map[*allocation.Task]*figures.Figures{},
	}
	if !f.publishing {
		now.NotPublishing = "publish_allocation_metrics is off"
	}
	for _, a := range f.allocs {
		u := fakeUsage(a.ID == webID)
		if f.rows != nil {
			f.rows(u.Sample)
		}
		if u.Reason = f.reason; !f.publishing {
			u = &figures.Figures{Running: a.ID == webID, Reason: now.NotPublishing}
		}
		now.Usages[a.Tasks["web"]] = u
	}
	return now
}

func (f *fakeAgent) Validate(_ context.Context, source job.Source) (*job.Job, error) {
	if source.Text == "broken" {
		return nil, &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: "Unsupported block", Detail: "network is not supported.",
			Subject: &hcl.Range{Filename: source.Filename, Start: hcl.Pos{Line: 3, Column: 5}},
		}
	}
	return f.jobs[len(f.jobs)-1].Job, nil
}

func (f *fakeAgent) RunJob(ctx context.Context, source job.Source, expected *uint64) (*snapshot.Job, bool, error) {
	if _, err := f.Validate(ctx, source); err != nil {
		return nil, false, err
	}
	if expected != nil && *expected != f.jobs[len(f.jobs)-1].ModifyIndex {
		return nil, false, allocation.ErrChanged
	}
	if len(source.Counts) > 0 {
		return f.jobs[len(f.jobs)-1], true, f.note("run %s %v %v", source.Filename, source.Variables, source.Counts)
	}
	return f.jobs[len(f.jobs)-1], true, f.note("run %s %v", source.Filename, source.Variables)
}

func (f *fakeAgent) ScaleJob(_ context.Context, id, group string, count int) (*snapshot.Job, bool, error) {
	return f.jobs[len(f.jobs)-1], true, f.note("scale %s %s %d", id, group, count)
}

func (f *fakeAgent) PlanJob(ctx context.Context, source job.Source) (*snapshot.Plan, error) {
	j, err := f.Validate(ctx, source)
	if err != nil {
		return nil, err
	}
	return &snapshot.Plan{Job: j, Groups: map[string]snapshot.Changes{"cache": {Place: 1, Stop: 2}}}, nil
}

func (f *fakeAgent) StopJob(id string, purge bool, _ *uint64) error {
	if purge {
		f.jobs = slices.DeleteFunc(slices.Clone(f.jobs), func(j *snapshot.Job) bool { return j.Job.ID == id })
	}
	return f.note("stop job %s %v", id, purge)
}

func (f *fakeAgent) ReplaceAlloc(id string) error { return f.note("stop %s", id) }

func (f *fakeAgent) RestartAlloc(id, task string) error { return f.note("restart %s %s", id, task) }

func (f *fakeAgent) SignalAlloc(_ context.Context, id, task, signal string) error {
	return f.note("signal %s %s %s", id, task, signal)
}

func (f *fakeAgent) History(_, _ string, q series.Query) ([]series.Point, error) {
	var rows []procstats.ProcessRow
	if q.Processes {
		rows = fakeUsage(true).Sample.Processes
	}
	if !q.Nearest.IsZero() {
		return []series.Point{{
			Stamp: procstats.Stamp{Wall: q.Nearest}, Run: 1, Values: map[procstats.ID]float64{procstats.HeadlineMemory: 1024},
			Processes: rows,
		}}, nil
	}
	if err := f.note("history %v %v %v %d", q.Since.IsZero(), q.Until.IsZero(), q.Step, q.Most); err != nil {
		return nil, err
	}
	at := procstats.Stamp{Mono: time.Minute, Wall: epoch.Add(-time.Minute)}
	return []series.Point{
		{Stamp: at, Run: 1, Values: map[procstats.ID]float64{procstats.HeadlineCores: 0.5, procstats.CgroupCPUUsage: 12}, Processes: rows},
		{Stamp: at, Run: 1, Gap: series.GapAgent},
	}, nil
}

func (f *fakeAgent) Commands(id, _ string) (*record.Commands, error) {
	if id != webID {
		return nil, fmt.Errorf("commands: %w", allocation.ErrNotFound)
	}
	return &record.Commands{Rows: []procstats.Command{{Name: "cc1", Processes: 412, Failed: 3, CPUSeconds: 96.2, PeakRSSGuarantee: procstats.Exact}}}, nil
}

func (f *fakeAgent) Record(id, _ string) (*record.Record, error) {
	if id != batchID {
		return nil, fmt.Errorf("record: %w", allocation.ErrNotFound)
	}
	code, signal := 137, 9
	return &record.Record{
		Version: record.Version{SchemaVersion: "1"}, State: record.Exited, ID: "x", Command: []string{"/bin/" + secret},
		Origin: record.Origin{Dir: "/" + secret, User: secret, Message: secret}, ExitCode: &code, Signal: &signal, StartedAt: epoch.Add(-10 * time.Minute), EndedAt: epoch,
		Diagnosis: record.Diagnosis{
			Verdict: record.Signaled, Summary: "ended " + secret, Evidence: map[string]any{"x": secret}, OOMKilled: true,
			Outcome: record.OOMKilled, Reason: secret, Killers: []string{secret},
			OOM: record.OOM{Kills: new(int64(1)), Main: true, Scope: record.Own, Reason: "open /sys/fs/cgroup/" + secret, Notices: []record.Kill{{
				At: epoch, Kills: 1, Scope: record.Own, Main: true, LimitBytes: new(int64(48 << 20)), PeakBytes: new(int64(48 << 20)),
				Where: "/sys/fs/cgroup/" + secret, Reason: secret,
			}}},
		},
		About:        record.About{Labels: map[string]string{"x": secret}, Notes: []string{secret}, Host: record.Host{}},
		Processes:    &record.Processes{Rows: fakeRows()},
		Surroundings: record.Surroundings{Peak: &record.Peak{Largest: fakeRows()}, Limits: []record.Limit{{Name: "cgroup_memory_max_bytes", Effective: new(float64(48 << 20)), Where: "/sys/fs/cgroup/" + secret}}},
	}, nil
}

// fakeRows are processes of a record, with command lines.
func fakeRows() []record.ProcessRow {
	return []record.ProcessRow{{PID: 7, PPID: 1, Command: "server", Measurements: map[string]any{
		"process_cpu_seconds_total": 12.0, "process_cmdline": "server --password " + secret,
	}}}
}

func (f *fakeAgent) ExecTask(ctx context.Context, id, task string, o driver.ExecOptions) (driver.ExecStream, error) {
	if err := f.note("exec %s %s %q %v", id, task, o.Command, o.TTY); err != nil {
		return nil, err
	}
	f.exec.ctx = ctx
	return f.exec, nil
}

func (f *fakeAgent) Feed() *snapshot.Feed { return f.feed }

func (f *fakeAgent) Health() error { return f.unhealthy }

func (f *fakeAgent) Recovering() error { return nil }

func (f *fakeAgent) node() node.Node {
	return node.Node{
		ID: nodeID, Name: "node1", Datacenter: "dc1", Region: "global", StartedAt: epoch.Add(-time.Hour),
		Attributes: map[string]string{"cpu.arch": "amd64", "kernel.name": "linux", "unique.hostname": "host1", "unique.storage.volume": "/data"},
		Resources:  node.Resources{Cores: []int{0, 1}, CoreMHz: 2500, MemoryBytes: 8 << 30, DiskBytes: 100 << 30},
		Drivers: map[string]node.Driver{"tacho": {
			Name: "tacho", Detected: true, Healthy: f.reason == "", Reason: f.reason, UpdatedAt: epoch,
			Attributes: map[string]any{"driver.tacho.version": "1.0"},
		}},
	}
}

func (f *fakeAgent) NodeStats(context.Context) (*node.Stats, error) {
	disk := node.Disk{Device: "/dev/sda1", Mountpoint: "/", Size: 100 << 30, Used: 40 << 30, Available: 60 << 30, UsedPercent: 40, InodesUsedPercent: 5}
	return &node.Stats{
		Time: epoch, Uptime: time.Hour, Memory: node.Memory{Total: 8 << 30, Available: 6 << 30, Used: 2 << 30, Free: 1 << 30},
		CPU:   []node.CPU{{Name: "cpu0", User: 10, System: 5, Idle: 85, Total: 15, TotalPercent: 15}},
		Disks: []node.Disk{{Device: "/dev/sdb", Mountpoint: "/data2"}, disk}, DataDisk: &node.Disk{Mountpoint: "/data", Size: 100 << 30}, CPUTicksConsumed: 375, Reasons: map[string]string{},
	}, nil
}

func (f *fakeAgent) config() config.Config {
	c := config.Default()
	c.Telemetry.PrometheusMetrics, c.DataDir, c.Ports.HTTP = true, "/"+secret, f.port
	c.Client.Meta = map[string]string{"rack": secret}
	return c
}

func (f *fakeAgent) Cost() snapshot.Cost {
	return snapshot.Cost{CPUSeconds: 1.5, RSSBytes: 20 << 20, Goroutines: 12, Uptime: time.Hour, Samples: 100, Errors: map[string]int64{"stats": 2}}
}

func (f *fakeAgent) CollectGarbage() (int, error) { return 1, f.note("gc") }
