// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/eventlog"
	"github.com/tachograph/tacho/procstats"
)

// maxEvents bounds the journal: events are rare, and a task that makes many (OOM kills in a loop) must not make
// its executor grow.
const maxEvents = 256

// journal is the log of what happened to the task.
type journal struct {
	*eventlog.Log[*proto.Event]
	// notify is called after each event.
	notify func()
}

func newJournal() *journal {
	return &journal{Log: eventlog.New[*proto.Event](maxEvents, 0), notify: func() {}}
}

// add appends an event.
//
// Names of processes are in it, which may have any bytes; a caller of an older build takes none but UTF-8.
func (j *journal) add(kind, message string, annotations map[string]string) {
	message = readable(message)
	for key, text := range annotations {
		annotations[key] = readable(text)
	}
	j.Append(func(n uint64) *proto.Event {
		return &proto.Event{
			Sequence: n, UnixNs: time.Now().UnixNano(), Kind: kind, Message: message, Annotations: annotations,
		}
	})
	j.notify()
}

// addOutside reports processes that were seen outside the task's cgroup.
func (j *journal) addOutside(main int, seen []procstats.ProcessID) {
	if slices.ContainsFunc(seen, func(p procstats.ProcessID) bool { return p.PID == main }) {
		j.add("left_cgroup", "the main process left its cgroup: the cgroup's totals are not the task's", nil)
		return
	}
	what := procstats.Counted(len(seen), "process runs", "processes run")
	j.add("left_cgroup", what+" outside the task's cgroup: the cgroup's totals are not the task's", nil)
}

// readable is a text without bytes that are no UTF-8.
func readable(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

// addOOMKill appends the event of an OOM kill, or that another process is known now to be the victim of one. It is
// made from what the record will say.
func (j *journal) addOOMKill(kill record.Kill, again bool) {
	kind := "oom_kill"
	if again {
		kind = "oom_victim"
	}
	j.add(kind, kill.Sentence(), annotations(&kill))
}

func annotations(kill *record.Kill) map[string]string {
	a := map[string]string{"scope": string(kill.Scope), "kills": strconv.FormatInt(kill.Kills, 10)}
	for name, value := range map[string]*int64{
		"limit_bytes": kill.LimitBytes, "peak_bytes": kill.PeakBytes, "headroom_bytes": kill.HeadroomBytes,
	} {
		if value != nil {
			a[name] = strconv.FormatInt(*value, 10)
		}
	}
	for name, value := range map[string]string{"limit_of": kill.Where, "reason": kill.Reason} {
		if value != "" {
			a[name] = value
		}
	}
	if kill.Group {
		a["group"] = "true"
	}
	victim := kill.Victim()
	if victim == nil {
		return a
	}
	a["victim_pid"], a["victim_command"], a["victim_source"] = strconv.Itoa(victim.PID), victim.Command, victim.Source
	if victim.Namespace != "" {
		a["victim_pid_namespace"] = victim.Namespace
	}
	if victim.RSSBytes != nil {
		a["victim_rss_bytes"] = strconv.FormatInt(*victim.RSSBytes, 10)
	}
	return a
}

// notifier wakes an owner that is not connected, see wire.NotifyFile. The zero notifier does not: the owner stays
// connected.
type notifier struct{ descriptor atomic.Int64 } // of the FIFO, plus one

// open makes the FIFO in the executor's directory. It is open for reading as well: a FIFO without a reader would
// refuse the byte. The runtime's poller does not have it, which would wake this process whenever the owner reads.
func (n *notifier) open(folder string) error {
	path := filepath.Join(folder, wire.NotifyFile)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	n.descriptor.Store(int64(fd) + 1)
	return nil
}

// notify says that something has changed.
func (n *notifier) notify() {
	if descriptor := n.descriptor.Load(); descriptor > 0 {
		_, _ = unix.Write(int(descriptor-1), []byte{0}) // a full one has bytes that were not read
	}
}
