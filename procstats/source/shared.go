// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"sync"

	"github.com/tachograph/tacho/procstats/kernel"
)

// Shared is what the sources of several tasks have in common: the memory that files are read into, and files of the machine.
// Whoever opens or collects them holds its lock.
type Shared struct {
	sync.Mutex
	// Buffer is memory for whoever holds the lock.
	Buffer []byte
	// proof is for a second file that is read while the content of the first is in use.
	proof []byte
	pools *kernel.HugePools
}

// hugePools returns the machine's pools of huge pages, opened once.
func (s *Shared) hugePools(fs kernel.FS) (*kernel.HugePools, error) {
	if s.pools != nil {
		return s.pools, nil
	}
	var err error
	s.pools, err = kernel.OpenHugePools(fs)
	return s.pools, err
}

// Close closes the machine's files. Closing nil is fine.
func (s *Shared) Close() error {
	if s == nil || s.pools == nil {
		return nil
	}
	pools := s.pools
	s.pools = nil
	return pools.Close()
}

// shared returns what the sources of a target share; with no other task if the target does not say.
func (t *Target) shared() *Shared {
	if t.Shared != nil {
		return t.Shared
	}
	return &Shared{}
}
