// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"errors"
	"io"
	"sync"

	"github.com/tachograph/tacho/procstats/exits"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
)

// programs are what an executor loads into the kernel that samples its task. The kernel takes milliseconds to check them, so they are
// loaded while the caller connects, if the executor is told that it will sample.
type programs struct {
	host    kernel.FS
	packets loaded[*network.Counter] // the trial
	exits   loaded[*exits.Reader]
}

// load loads all of them.
func (p *programs) load() {
	_ = p.tryPackets() // and who needs it gets the error
	_, _ = p.openExits()
}

// tryPackets says why packets cannot be counted here.
func (p *programs) tryPackets() error {
	_, err := p.packets.get(func() (*network.Counter, error) { return network.Trial(p.host) })
	return err
}

func (p *programs) openExits() (*exits.Reader, error) {
	return p.exits.get(func() (*exits.Reader, error) { return exits.Open(p.host) })
}

// close unloads what is loaded. Closing twice is fine.
func (p *programs) close() error { return errors.Join(p.packets.close(), p.exits.close()) }

// loaded is a value that is made once, by the first that needs it, while others wait.
type loaded[T io.Closer] struct {
	mu    sync.Mutex // guards following
	made  bool
	open  bool
	value T
	err   error
}

func (l *loaded[T]) get(load func() (T, error)) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.made {
		l.value, l.err = load()
		l.made, l.open = true, l.err == nil
	}
	return l.value, l.err
}

// errUnloaded says that nobody is to load it any more.
var errUnloaded = errors.New("unloaded")

func (l *loaded[T]) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.made {
		l.made, l.err = true, errUnloaded
	}
	if !l.open {
		return nil
	}
	l.open = false
	return l.value.Close()
}
