// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"time"

	"github.com/tachograph/tacho/procstats/kernel"
)

// settingsInterval is how often settings are read without a write that was seen.
const settingsInterval = time.Minute

// cgroupSettings says when the settings of a task's cgroup have to be read again.
type cgroupSettings struct {
	shared  *Shared
	folders []*kernel.WrittenFolder // those that have them
	due     time.Duration           // Stamp.Mono from which on they are read whatever was seen
}

// watchSettings watches the folders of the settings among some files, if the caller wants that; nil if it cannot be
// done, and they are to be read each time. Either way they are opened for each read from then on, so that a task takes
// as many descriptors.
func watchSettings(shared *Shared, files []cgroupFile) *cgroupSettings {
	if !shared.Watches {
		return nil
	}
	s, missing := &cgroupSettings{shared: shared}, false
	watched := make(map[string]bool)
	for i := range files {
		f := &files[i]
		if !f.spec.setting || !f.isOpen() {
			continue
		}
		f.reopen()
		if watched[f.dir] {
			continue
		}
		watched[f.dir] = true
		if folder := shared.watch(f.dir); folder != nil {
			s.folders = append(s.folders, folder)
		} else {
			missing = true
		}
	}
	if missing {
		s.close()
		return nil
	}
	return s
}

// written reports whether a file of one of the folders was written to since the settings were last read.
func (s *cgroupSettings) written() bool {
	if s == nil || len(s.folders) == 0 {
		return false
	}
	s.shared.writes.Look()
	for _, folder := range s.folders {
		if folder.Written {
			return true
		}
	}
	return false
}

// stale reports whether the settings have to be read now, as the caller does then.
func (s *cgroupSettings) stale(now time.Duration) bool {
	if s == nil {
		return true
	}
	if !s.written() && now < s.due {
		return false
	}
	for _, folder := range s.folders {
		folder.Written = false
	}
	s.due = now + settingsInterval
	return true
}

// expire has the settings read at the next collection, whatever is seen.
func (s *cgroupSettings) expire() {
	if s != nil {
		s.due = 0
	}
}

// close ends the watch.
func (s *cgroupSettings) close() {
	if s == nil {
		return
	}
	for _, folder := range s.folders {
		s.shared.writes.Leave(folder)
	}
	s.folders = nil
}
