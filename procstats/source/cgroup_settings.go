// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats/kernel"
)

// settingsInterval is how often settings are read without a write that was seen.
const settingsInterval = time.Minute

// cgroupSettings says when the settings of a task's cgroup have to be read again.
type cgroupSettings struct {
	watched bool // else they are read at every collection
	shared  *Shared
	folders []*kernel.WrittenFolder // those that have them
	due     time.Duration           // Stamp.Mono from which on they are read whatever was seen
}

// watchSettings watches the folders of the settings among some files, if the caller wants that and it can be done.
// Either way they are opened for each read from then on, so that a task takes as many descriptors.
func watchSettings(shared *Shared, files []cgroupFile) (s cgroupSettings) {
	if !shared.Watches {
		return s
	}
	s.shared, s.watched = shared, true
	var dirs []string
	for i := range files {
		f := &files[i]
		if !f.spec.setting || !f.isOpen() {
			continue
		}
		f.reopen()
		if slices.Contains(dirs, f.dir) {
			continue
		}
		dirs = append(dirs, f.dir)
		if folder := shared.watch(f.dir); folder != nil {
			s.folders = append(s.folders, folder)
		} else {
			s.watched = false
		}
	}
	if !s.watched {
		s.close()
	}
	return s
}

// written reports whether a file of one of the folders was written to since the settings were last read.
func (s *cgroupSettings) written() bool {
	if len(s.folders) == 0 {
		return false
	}
	s.shared.writes.Look()
	return slices.ContainsFunc(s.folders, func(f *kernel.WrittenFolder) bool { return f.Written })
}

// stale reports whether the settings have to be read now, as the caller does then.
func (s *cgroupSettings) stale(now time.Duration) bool {
	if s.watched && !s.written() && now < s.due {
		return false
	}
	for _, folder := range s.folders {
		folder.Written = false
	}
	s.due = now + settingsInterval
	return true
}

// expire has the settings read at the next collection, whatever is seen.
func (s *cgroupSettings) expire() { s.due = 0 }

// close ends the watch.
func (s *cgroupSettings) close() {
	for _, folder := range s.folders {
		s.shared.writes.Leave(folder)
	}
	s.folders = nil
}
