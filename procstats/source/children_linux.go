// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// childrenWalk finds processes by their parents, where no cgroup lists them.
type childrenWalk struct {
	queue []*process
	tids  []int
	// unlisted is set if the kernel has no children files.
	unlisted bool
	dirents  []byte
}

// direntBuffer returns memory for the entries of a folder.
func (w *childrenWalk) direntBuffer() []byte {
	if len(w.dirents) == 0 {
		w.dirents = make([]byte, 32<<10)
	}
	return w.dirents
}

// walkTree marks the roots, what is known already, and everything below both.
//
// A child can be left out of a children file while its siblings exit, so a process that was found once stays until
// it is reaped; one that was missed is found the next time.
func (m *membership) walkTree() {
	w := &m.tree
	w.queue = w.queue[:0]
	for _, p := range m.procs {
		if !p.dead && p.identified {
			p.round = m.round
			w.queue = append(w.queue, p)
		}
	}
	for _, pid := range m.target.Roots() {
		m.find(pid, 0)
	}
	for i := 0; i < len(w.queue) && !w.unlisted; i++ {
		m.findChildren(w.queue[i])
	}
	if w.unlisted {
		m.absent = "the kernel does not list the children of a process: needs CONFIG_PROC_CHILDREN"
	}
}

// find marks a process and has its children found in turn, once in a round however often it is named.
func (m *membership) find(pid, parent int) {
	if p := m.byPID[pid]; p != nil && !p.dead && p.round == m.round {
		return
	}
	if p := m.see(pid, parent); p != nil {
		m.tree.queue = append(m.tree.queue, p)
	}
}

// findChildren finds the children of all threads of a process: the kernel lists a child with the thread that made it.
// A process that has only its main thread, nearly all have, costs two system calls, and four where its files are not
// kept open.
func (m *membership) findChildren(p *process) {
	m.pids = m.pids[:0]
	m.keepTask(p)
	var err error
	if m.hasOneThread(p) {
		err = m.appendChildren(p)
	} else {
		err = m.appendThreadsChildren(p)
	}
	if errors.Is(err, unix.ENOENT) && m.verify(p) == nil {
		m.tree.unlisted = true
		return
	}
	for _, pid := range m.pids {
		m.find(pid, p.PID)
	}
}

// keepTask opens the folder of a process's threads, if it is to be kept open.
func (m *membership) keepTask(p *process) {
	if p.kept[kernel.FileTask].IsOpen() || !m.mayKeep(kernel.FileTask) {
		return
	}
	task, err := m.open(p.PID, kernel.FileTask)
	if err != nil {
		return
	}
	m.keep(p, kernel.FileTask, task)
	_ = m.verify(p) // which marks it dead if the folder is of another process
}

// hasOneThread reports whether the process has only its main thread: its folder of threads has three links. If that is
// not kept open, what is read next has to prove that it was this process's.
func (m *membership) hasOneThread(p *process) bool {
	var folder unix.Stat_t
	var links uint32
	var err error
	if task := p.kept[kernel.FileTask]; task.IsOpen() {
		err = unix.Fstat(task.FD(), &folder)
		links = uint32(folder.Nlink)
	} else {
		links, err = kernel.Links(m.pathOf(p.PID, kernel.FileTask))
	}
	return err == nil && links == 3 && m.target.FS.Live
}

// appendChildren reads the main thread's children into m.pids.
func (m *membership) appendChildren(p *process) error {
	data, err := m.read(p, kernel.FileChildren)
	if err == nil {
		m.pids, _, err = kernel.AppendPIDs(m.pids, data)
	}
	return err
}

// appendThreadsChildren reads the children of every thread into m.pids. It goes through the process's own folder:
// that cannot become another's. ENOENT is returned where no thread has a children file.
func (m *membership) appendThreadsChildren(p *process) error {
	task := p.kept[kernel.FileTask]
	if !task.IsOpen() {
		var err error
		if task, err = m.open(p.PID, kernel.FileTask); err != nil {
			return errEnded
		}
		defer func() { _ = task.Close() }()
		if err := m.verify(p); err != nil {
			return err
		}
	}
	if err := m.listThreads(task); err != nil {
		return err
	}
	var found error = unix.ENOENT
	for _, tid := range m.tree.tids {
		data, err := m.readThread(task, tid, kernel.FileChildren, m.shared.Buffer)
		if m.shared.Buffer = data; err == nil {
			m.pids, _, err = kernel.AppendPIDs(m.pids, data)
		}
		switch {
		case errors.Is(err, unix.ENOENT): // the thread has ended, or the kernel has no such files
		case err == nil, kernel.Gone(err):
			found = nil
		default:
			return err
		}
	}
	return found
}
