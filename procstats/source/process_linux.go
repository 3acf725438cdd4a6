// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// process is one member of the task, and what the sources last read of it.
type process struct {
	procstats.ProcessID
	ppid    int
	command string

	kept [kernel.KeptProcessFiles]kernel.File
	// round is the last refresh that found the process in the task.
	round uint64
	// dead is set once a read has proved that the process is gone, dropped once Members has removed it.
	dead, dropped bool
	// orphaned is set when the parent that is known has ended, until stat has been read again.
	orphaned bool
	// outside says of what the task's cgroup has no account of the process now, left of what it had none at some time.
	outside, left accounts
	// outsideCPU is its CPU time when it was last found outside the cgroup that counts that; 0 if it is inside.
	outsideCPU time.Duration
	// looks counts how often it was looked at while it was young, lookAt is the refresh of the next time.
	looks  uint8
	lookAt uint64
	// childrenAtCPU is the CPU time that it had when its children were last looked for.
	childrenAtCPU time.Duration
	// foreign is set for a process that another program has put into the cgroup, and those it makes there. before and
	// childrenBefore are the CPU time that it had used, and its reaped children, when it was first seen.
	foreign                bool
	before, childrenBefore time.Duration
	// leaderless reports that the main thread has ended and others have not, ended that none is left.
	leaderless, ended bool
	// sampled is set once a sample has counted the process.
	sampled bool
	// identified is whether Start is known; a process that is hidden from us has a PID only.
	identified bool
	// unreadable reports that the last read failed though the process is there; fault says why, errno is the cause.
	unreadable bool
	fault      string
	errno      unix.Errno

	tree  treeReading
	io    ioReading
	smaps smapsReading

	cmdline cmdlineReading
	queue   queueReading

	// rank orders processes for the rows of a sample, most first, where there are more than fit.
	rank [2]int64
}

// errEnded is what reading a dead process reports.
const errEnded = unix.ESRCH

// pathOf writes the path of a file below /proc/PID, with the NUL that system calls want, into memory used again.
func (m *Members) pathOf(pid int, file kernel.ProcessFile) []byte {
	m.path = file.AppendPath(m.path[:0], m.target.FS, pid)
	return m.path
}

// open opens a file of whatever process has the PID now.
func (m *Members) open(pid int, file kernel.ProcessFile) (kernel.File, error) {
	flags := 0
	if file == kernel.FileTask {
		flags = unix.O_DIRECTORY
	}
	return kernel.OpenAt(unix.AT_FDCWD, m.pathOf(pid, file), flags)
}

// read returns the content of a process's file, in memory that is valid until the next read. The error is a bare
// errno or errFormat; p.dead tells whether it means that the process is gone. A file that could be read was this
// process's, and the process was there after its last byte was read.
func (m *Members) read(p *process, file kernel.ProcessFile) ([]byte, error) {
	if p.dead {
		return nil, errEnded
	}
	if file < kernel.KeptProcessFiles && p.kept[file].IsOpen() {
		if file == kernel.FileStatm {
			return m.readStatm(p)
		}
		data, err := readWhole(&p.kept[file], file, m.shared.Buffer)
		return m.checked(p, data, err)
	}
	f, err := m.open(p.PID, file)
	if err != nil {
		return nil, m.explain(p, err)
	}
	var data []byte
	if file == kernel.FileCmdline {
		data, err = f.ReadHead(m.shared.Buffer, kernel.CmdlineRead)
	} else {
		data, err = readWhole(&f, file, m.shared.Buffer)
	}
	if data, err = m.checked(p, data, err); err == nil {
		if file == kernel.FileStat {
			err = m.identify(p, data)
		} else {
			err = m.verify(p)
		}
	}
	if err != nil || !m.keep(p, file, f) {
		_ = f.Close()
	}
	return data, err
}

// readUnproved returns the content of a file of whatever process has the PID now.
func (m *Members) readUnproved(p *process, file kernel.ProcessFile) ([]byte, error) {
	f, err := m.open(p.PID, file)
	if err != nil {
		return nil, m.explain(p, err)
	}
	data, err := readWhole(&f, file, m.shared.Buffer)
	_ = f.Close() // of what was only read
	return m.checked(p, data, err)
}

// readWhole reads all of a file. The kernel hands out a list of children a page at a time, and the rest in one piece.
func readWhole(f *kernel.File, file kernel.ProcessFile, buf []byte) ([]byte, error) {
	if file == kernel.FileChildren {
		return f.Read(buf)
	}
	return f.ReadRecord(buf)
}

// readStatm reads a kept-open statm, the one file that is read of every process in every sample. It cannot sleep, but
// for the one time in a process's life that this happens to be the last to hold the memory of a process that is ending.
func (m *Members) readStatm(p *process) ([]byte, error) {
	data, err := p.kept[kernel.FileStatm].ReadNow(m.shared.Buffer)
	return m.checked(p, data, err)
}

// statm reads and parses a process's statm, be it from a thread: see readThreads.
func (m *Members) statm(p *process) (kernel.ProcStatm, error) {
	data, err := m.read(p, kernel.FileStatm)
	if err != nil {
		return kernel.ProcStatm{}, err
	}
	memory, err := kernel.ParseProcStatm(data)
	if err != nil || memory.Size != 0 {
		p.leaderless = false // a thread that executes a program becomes the main one
		return memory, err
	}
	if p.ended || !m.outlivesMain(p) {
		return memory, nil
	}
	if data, err = m.readThreads(p, kernel.FileStatm); err != nil {
		return kernel.ProcStatm{}, m.verify(p)
	}
	return kernel.ParseProcStatm(data)
}

// outlivesMain reports whether a process without memory has threads left. One that has none has ended, and stays so.
func (m *Members) outlivesMain(p *process) bool {
	stat, err := m.stat(p)
	if err == nil && stat.Threads > 1 && !p.leaderless { // the cgroup of the main thread is not that of the others any more
		p.looks, p.lookAt, m.outside.youngAt = 0, 0, 0
	}
	p.leaderless = err == nil && stat.Threads > 1
	p.ended = err == nil && !p.leaderless
	return p.leaderless
}

// readThreads is read for a process whose main thread may have ended (pthread_exit) while others run: its files say
// nothing of its memory then, and those of any other thread do.
func (m *Members) readThreads(p *process, file kernel.ProcessFile) ([]byte, error) {
	if !p.leaderless {
		return m.read(p, file)
	}
	return m.readRunningThread(p, file)
}

// readRunningThread reads a file of a thread of a process that is not about to end.
func (m *Members) readRunningThread(p *process, file kernel.ProcessFile) ([]byte, error) {
	task, err := m.open(p.PID, kernel.FileTask)
	if err == nil {
		defer func() { _ = task.Close() }()
		err = m.listThreads(task)
	}
	if err != nil {
		return nil, m.explain(p, err)
	}
	for _, tid := range m.tree.tids {
		data, err := m.readThread(task, tid, file, m.shared.Buffer)
		if m.shared.Buffer = data; err != nil || len(data) == 0 {
			continue
		}
		switch file {
		case kernel.FileStatm: // that of a thread that is ending is all zeros
			if data[0] == '0' {
				continue
			}
		case kernel.FileCgroup:
			proof, err := m.readThread(task, tid, kernel.FileStat, m.shared.proof)
			m.shared.proof = proof
			if stat, parsed := kernel.ParseProcStat(proof); err != nil || parsed != nil || stat.Exiting() {
				continue
			}
		}
		return data, m.verify(p)
	}
	return nil, unix.ESRCH
}

// readThread reads a file of one thread, from the folder of threads, into memory used again.
func (m *Members) readThread(task kernel.File, tid int, file kernel.ProcessFile, into []byte) ([]byte, error) {
	m.path = append(append(strconv.AppendInt(m.path[:0], int64(tid), 10), '/'), file.String()...)
	f, err := kernel.OpenAt(task.FD(), append(m.path, 0), 0)
	if err != nil {
		return into, err
	}
	data, err := f.Read(into)
	_ = f.Close() // of what was only read
	return data, err
}

// checked takes the read buffer back and explains the error.
func (m *Members) checked(p *process, data []byte, err error) ([]byte, error) {
	if data != nil {
		m.shared.Buffer = data
	}
	if err != nil {
		return nil, m.explain(p, err)
	}
	return data, nil
}

// explain marks a process dead whose file is gone, unless the file alone is: a zombie has no smaps_rollup.
func (m *Members) explain(p *process, err error) error {
	if kernel.Gone(err) {
		_ = m.verify(p)
	}
	return err
}

// verify returns nil where the process is still there, be it as a zombie, and marks it dead where it is not. A
// descriptor of a file below /proc/PID belongs to the process and not to the PID: reading it fails with ESRCH once
// that process is reaped, whoever has the PID then.
func (m *Members) verify(p *process) error {
	if p.dead {
		return errEnded
	}
	for _, file := range [...]kernel.ProcessFile{kernel.FileStatm, kernel.FileStat} {
		if !p.kept[file].IsOpen() {
			continue
		}
		data, err := p.kept[file].ReadRecord(m.shared.proof)
		m.shared.proof = data
		if err != nil && kernel.Gone(err) {
			p.dead = true
			return errEnded
		}
		return err
	}
	f, err := m.open(p.PID, kernel.FileStat)
	if err == nil {
		var data []byte
		data, err = f.ReadRecord(m.shared.proof)
		m.shared.proof = data
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err == nil {
			return m.identify(p, data)
		}
	}
	if kernel.Gone(err) {
		p.dead = true
		return errEnded
	}
	return err
}

// identify compares a freshly opened stat with the start time that is known.
func (m *Members) identify(p *process, data []byte) error {
	stat, err := kernel.ParseProcStat(data)
	if err != nil {
		return err
	}
	if stat.Start != p.Start {
		p.dead = true
		return errEnded
	}
	return nil
}

// mayKeep reports whether a file is to be kept open, and there is room for it.
func (m *Members) mayKeep(file kernel.ProcessFile) bool {
	return file < kernel.KeptProcessFiles && m.wants[file] && m.keptFiles < m.maxKept
}

// keep keeps a descriptor open with its process where there is room for it.
func (m *Members) keep(p *process, file kernel.ProcessFile, f kernel.File) bool {
	if !m.mayKeep(file) {
		return false
	}
	p.kept[file] = f
	m.keptFiles++
	return true
}

// release closes all that is kept of a process.
func (m *Members) release(p *process) error {
	var errs error
	for i := range p.kept {
		if p.kept[i].IsOpen() {
			m.keptFiles--
			errs = errors.Join(errs, p.kept[i].Close())
		}
	}
	return errs
}

// reopenFiles closes what is kept of all processes, and has no more than one file kept from now on.
func (m *Members) reopenFiles() {
	m.maxKept = min(m.maxKept, 1)
	for _, p := range m.procs {
		_ = m.release(p) // of what was only read
	}
}

// setFault notes why nothing can be read of a process, worded only when the cause changes.
func (m *Members) setFault(p *process, err error) {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		errno = 0
	}
	p.unreadable = true
	if p.fault == "" || p.errno != errno {
		p.errno, p.fault = errno, faultReason(p.PID, kernel.FileStat, err)
	}
}

func faultReason(pid int, file kernel.ProcessFile, err error) string {
	reason := "read /proc/" + strconv.Itoa(pid) + "/" + file.String() + ": " + err.Error()
	switch {
	case errors.Is(err, unix.ENOENT):
		reason = "process " + strconv.Itoa(pid) + " is not shown: /proc is mounted with hidepid"
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		reason += " (another user's process: needs CAP_SYS_PTRACE)"
	case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE):
		reason += " (raise the limit on open files)"
	}
	return reason
}

// sinceBoot returns the start of the process on the clock of ProcessID.Start.
func (p *process) sinceBoot() time.Duration { return kernel.Ticks(p.Start) }
