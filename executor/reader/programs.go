// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package reader

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/exits"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
)

// Programs are what this process loads into the kernel to see what only a watcher sees: the processes that end, and packets. One
// set counts the ended processes of all tasks; it is loaded while it has users.
type Programs struct {
	log hclog.Logger
	// linger is how long the programs stay loaded without a user: to attach them again soon after, the kernel waits until no CPU
	// can be running those of before.
	linger time.Duration
	// tryLater leaves it to [Exits.Try] to see whether the programs report anything: that takes a millisecond.
	tryLater bool

	trial sync.Mutex // guards following
	tried bool
	// counter is that of the trial, until the first task has its own; packetsErr is why packets cannot be counted here.
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
	return &Programs{log: log, linger: 2 * time.Second}
}

// NewProgramsOfOne is NewPrograms for a process that reads one task, which may be over in no time.
func NewProgramsOfOne(log hclog.Logger) *Programs { return &Programs{log: log, tryLater: true} }

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
		p.counter, p.packetsErr = network.Trial(kernel.HostFS())
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

// CountPackets begins to count the packets of a cgroup.
func (p *Programs) CountPackets(group procstats.Cgroup) (*network.Counter, error) {
	defer p.EndTrial()
	if err := p.TryPackets(); err != nil {
		return nil, err
	}
	return network.Count(kernel.HostFS(), group.V2)
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
	return network.Open(kernel.HostFS(), selection, group.V2, started)
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
		r, err := exits.Open(kernel.HostFS())
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
