// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package reader

import (
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/exits"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
)

// exitLimit is how long the end of a task, and a request for its commands, wait for records that are outstanding.
const exitLimit = 100 * time.Millisecond

// errEndedBefore is of a task whose cgroup has been removed.
var errEndedBefore = errors.New("the task had ended before its processes could be watched")

// Exits counts the ended processes of one task, since before its start or since it was first read. Nil counts none.
type Exits struct {
	programs *Programs
	reader   *exits.Reader
	watch    *exits.Watch // nil with the reason why there is none
	reason   string
	since    time.Time
	before   *record.Handed // what an earlier reader has counted; nil if there was none
}

// WatchExits begins to count what ends in the cgroup of a task; before is what was handed over of it, or nil.
func (p *Programs) WatchExits(group procstats.Cgroup, before *record.Handed) *Exits {
	w := &Exits{programs: p, since: time.Now(), before: before}
	if group.V2 == "" || !group.Encloses() {
		w.reason = network.NoCgroup
		return w
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.acquire()
	if err == nil {
		w.reader = p.reader
		if w.watch, err = w.reader.Watch(group.V2); err != nil {
			p.release()
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = errEndedBefore
		}
	}
	if err != nil {
		w.reason = err.Error()
	}
	return w
}

// Running takes from processes that run already what they have used so far.
func (w *Exits) Running(pids ...int) {
	for _, pid := range pids {
		cpu, err := kernel.ProcessCPU(pid)
		if err == nil && w.Counts() {
			io, _ := kernel.ReadProcIO(kernel.HostFS(), pid) // of another user
			w.watch.Earlier(pid, cpu, io)
		}
	}
}

// Try sees whether the programs report anything. For a task that is over before, the end of its first process is the
// test.
func (w *Exits) Try() {
	if w == nil || w.watch == nil {
		return
	}
	if err := w.reader.Try(); err != nil {
		w.giveUp(err)
	}
}

// giveUp ends the watch of programs that report nothing.
func (w *Exits) giveUp(reason error) {
	w.Close()
	w.watch, w.reason = nil, reason.Error()
}

// Await waits until the records of what has ended are there, and reports whether all are: the last slices of the task's
// processes are then in the account of its cgroup, too.
func (w *Exits) Await() bool {
	if !w.Counts() {
		return false
	}
	outstanding, reported := w.watch.Await(exitLimit)
	return reported && outstanding == 0
}

// Finish returns what the processes used of a task that was started at a time and has ended; nil if they were not
// counted.
func (w *Exits) Finish(started time.Time) *record.Commands {
	if w == nil {
		return nil
	}
	var s exits.Summary
	if w.watch != nil {
		var err error
		if s, err = w.watch.Finish(exitLimit); err != nil {
			w.giveUp(err)
		}
	}
	return w.commands(s, started)
}

// SoFar returns what the processes used that have ended of a running task.
func (w *Exits) SoFar(started time.Time) *record.Commands {
	if w.watch == nil {
		return w.commands(exits.Summary{}, started)
	}
	w.watch.Await(exitLimit)
	return w.commands(w.watch.Read(), started)
}

// Counted returns what has ended by now, for a handover; nil if nothing is counted.
func (w *Exits) Counted(started time.Time) *record.Handed {
	if !w.Counts() {
		return nil
	}
	at := time.Now()
	c := w.commands(w.watch.Read(), started)
	c.CloseWith(nil)
	return &record.Handed{At: at, Commands: c}
}

// commands returns sums as a record has them.
func (w *Exits) commands(s exits.Summary, started time.Time) *record.Commands {
	if w.watch == nil && w.before != nil {
		return w.before.Until(time.Now())
	}
	if w.watch == nil {
		return &record.Commands{Rows: []procstats.Command{}, Reason: w.reason}
	}
	c := &record.Commands{Rows: s.Commands, LostRecords: s.Lost}
	switch {
	case w.before != nil:
		c.Continue(w.before, w.since)
	case w.since.After(started):
		c.Since = w.since
	default:
		c.LeftProcesses = s.Left // of all that the task had
		if now := kernel.Now(); s.LastEnd > 0 {
			c.LastEnd = now.Wall.Add(s.LastEnd - now.Mono)
		}
	}
	return c
}

// Uncounted is that of the watch: how many sockets were seen whose packets are not counted, and why not all may be.
func (w *Exits) Uncounted() (sockets int64, unseen string) {
	if !w.Counts() {
		return 0, "sockets that the task may have been handed are not seen: " + w.reason
	}
	sockets, err := w.watch.Uncounted()
	if err != nil {
		unseen = err.Error()
	}
	return sockets, unseen
}

// Counts reports whether ended processes are counted.
func (w *Exits) Counts() bool { return w != nil && w.watch != nil }

// Describe says whether exits are recorded here, as a record has it.
func (w *Exits) Describe() []record.Source {
	if w == nil {
		return nil
	}
	return []record.Source{{Name: "exits", Available: w.watch != nil, Reason: w.reason}}
}

// Close ends the watch.
func (w *Exits) Close() {
	if !w.Counts() {
		return
	}
	p := w.programs
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := w.watch.Close(); err != nil {
		p.log.Error("close exit records of a task", "error", err)
	}
	p.release()
}

// Programs are what this process loads into the kernel to see what only a watcher sees: the processes that end, and
// packets. One set counts the ended processes of all tasks; it is loaded while it has users.
type Programs struct {
	log  hclog.Logger
	host kernel.FS
	// Sockets are what packets are not counted of.
	Sockets *network.PacketSockets
	// linger is how long the programs stay loaded without a user: to attach them again soon after, the kernel waits
	// until no CPU can be running those of before.
	linger time.Duration
	open   func(kernel.FS) (*exits.Reader, error)
	// tryLater leaves it to [Exits.Try] to see whether the programs report anything: that takes a millisecond.
	tryLater bool

	trial sync.Mutex // guards following
	tried bool
	// counter is that of the trial, until the first task has its own; packetsErr is why packets cannot be counted
	// here.
	counter    *network.Counter
	packetsErr error

	mu     sync.Mutex // guards following
	users  int
	reader *exits.Reader
	err    error       // why nothing is loaded, for good
	idle   *time.Timer // unloads the programs
}

// errEnded says that nothing is loaded any more.
var errEnded = errors.New("sampling has ended")

// NewPrograms returns programs that are not loaded yet, for a process that reads many tasks.
func NewPrograms(log hclog.Logger) *Programs {
	host := kernel.HostFS()
	return &Programs{
		log: log, host: host, Sockets: network.NewPacketSockets(host), open: exits.Open, linger: 2 * time.Second,
	}
}

// NewProgramsOfOne is NewPrograms for a process that reads one task, which may be over in no time.
func NewProgramsOfOne(log hclog.Logger, host kernel.FS) *Programs {
	return &Programs{log: log, host: host, Sockets: network.NewPacketSockets(host), open: exits.OpenOne, tryLater: true}
}

// Load loads the programs before they have a task, until release is called.
func (p *Programs) Load() (release func()) {
	p.mu.Lock()
	err := p.acquire()
	p.mu.Unlock()
	if err != nil {
		return func() {} // the next user gets the error
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.release()
	}
}

// TryPackets says why packets cannot be counted here. It keeps what it has loaded until a task has its counter: see
// [network.Trial].
func (p *Programs) TryPackets() error {
	p.trial.Lock()
	defer p.trial.Unlock()
	if !p.tried {
		p.tried = true
		p.counter, p.packetsErr = network.Trial(p.host)
	}
	return p.packetsErr
}

// EndTrial closes the counter of the trial, which counts packets of all processes beside this one.
func (p *Programs) EndTrial() {
	p.trial.Lock()
	defer p.trial.Unlock()
	p.tried = true
	if p.counter == nil {
		return
	}
	if err := p.counter.Close(); err != nil {
		p.log.Error("end the trial of counting packets", "error", err)
	}
	p.counter = nil
}

// OpenPackets opens the packets of a task as a source; started says that the task has been started.
func (p *Programs) OpenPackets(selection procstats.Selection, group procstats.Cgroup, started bool) *network.Source {
	defer p.EndTrial()
	if !group.Encloses() {
		group.V2 = ""
	}
	if group.V2 != "" && selection.HasSource(procstats.SourceSkb) {
		if err := p.TryPackets(); err != nil {
			return network.Absent(selection, err.Error())
		}
	}
	return network.Open(p.host, selection, group.V2, started)
}

// acquire loads the programs for one more user; the lock is held.
func (p *Programs) acquire() error {
	if p.err != nil {
		return p.err
	}
	if p.idle != nil {
		p.idle.Stop()
		p.idle = nil
	}
	if p.reader == nil {
		r, err := p.open(p.host)
		if err == nil && !p.tryLater {
			if err = r.Try(); err != nil {
				err = errors.Join(err, r.Close())
			}
		}
		if err != nil {
			if !errors.Is(err, exits.ErrBusy) {
				p.err = err
			}
			return err //nolint:wrapcheck // a reason for people, which names the operation
		}
		p.reader = r
	}
	p.users++
	return nil
}

// release gives the programs up; the lock is held.
func (p *Programs) release() {
	if p.users--; p.users > 0 {
		return
	}
	if p.linger == 0 || errors.Is(p.err, errEnded) {
		p.unload()
		return
	}
	p.idle = time.AfterFunc(p.linger, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.users == 0 {
			p.unload()
		}
	})
}

// unload unloads the programs; the lock is held.
func (p *Programs) unload() {
	if p.reader == nil {
		return
	}
	if err := p.reader.Close(); err != nil {
		p.log.Error("unload exit records", "error", err)
	}
	p.reader = nil
}

// Close unloads the programs now, or after their last user, and none are loaded again.
func (p *Programs) Close() {
	p.EndTrial()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = errEnded
	if p.users == 0 {
		p.unload()
	}
}
