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
	kept    [kernel.KeptProcessFiles]kernel.File
	// round is the last refresh that found the process in the task.
	round uint64
	// dead is set once a read has proved that the process is gone, dropped once membership has removed it.
	dead, dropped bool
	// orphaned is set when the parent that is known has ended, until stat has been read again.
	orphaned bool
	// leaderless reports that the main thread has ended and others have not, ended that none is left.
	leaderless, ended bool
	// sampled is set once a sample has counted the process. identified is whether Start is known; a process that is
	// hidden from us has a PID only.
	sampled, identified bool
	// unreadable reports that the last read failed though the process is there, for the reason in fault.
	unreadable bool
	fault      fault
	rest
	placement
	tree    treeReading
	io      ioReading
	smaps   smapsReading
	cmdline cmdlineReading
	queue   queueReading
	// rank orders processes for the rows of a sample, most first, where there are more than fit.
	rank [2]int64
}

// fault is why a file of a process could not be read, worded only when the cause changes. Its reason is empty where it
// could.
type fault struct {
	reason string
	errno  unix.Errno
}

func (f *fault) set(pid int, file kernel.ProcessFile, err error) {
	errno, _ := errors.AsType[unix.Errno](err)
	if f.reason == "" || f.errno != errno {
		f.errno, f.reason = errno, faultReason(pid, file, err)
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

// errEnded is what reading a dead process reports.
const errEnded = unix.ESRCH

// sinceBoot returns the start of the process on the clock of ProcessID.Start.
func (p *process) sinceBoot() time.Duration { return kernel.Ticks(p.Start) }

// cannotRead notes why nothing can be read of a process that is still there.
func (p *process) cannotRead(err error) {
	if !p.dead {
		p.unreadable = true
		p.fault.set(p.PID, kernel.FileStat, err)
	}
}

// setStat copies what identifies the process from a stat.
func (p *process) setStat(stat *kernel.ProcStat) {
	p.ppid = stat.PPID
	if p.command == string(stat.Comm) {
		return
	}
	if name := procstats.EscapeName(string(stat.Comm)); p.command != name {
		p.command = name
		p.smaps = smapsReading{} // it may be another program, with other memory
	}
}

// pathOf writes the path of a file below /proc/PID, with the NUL that system calls want, into memory used again.
func (m *membership) pathOf(pid int, file kernel.ProcessFile) []byte {
	m.shared.path = file.AppendPath(m.shared.path[:0], m.target.FS, pid)
	return m.shared.path
}

// open opens a file of whatever process has the PID now.
func (m *membership) open(pid int, file kernel.ProcessFile) (kernel.File, error) {
	flags := 0
	if file == kernel.FileTask {
		flags = unix.O_DIRECTORY
	}
	return kernel.OpenAt(unix.AT_FDCWD, m.pathOf(pid, file), flags)
}

// read returns the content of a process's file, in memory that is valid until the next read. The error is a bare
// errno or ErrFormat; p.dead tells whether it means that the process is gone. A file that could be read was this
// process's, and the process was there after its last byte was read.
func (m *membership) read(p *process, file kernel.ProcessFile) ([]byte, error) {
	if p.dead {
		return nil, errEnded
	}
	if file < kernel.KeptProcessFiles && p.kept[file].IsOpen() {
		return m.readFile(p, &p.kept[file], file)
	}
	f, err := m.open(p.PID, file)
	if err != nil {
		return nil, m.explain(p, err)
	}
	data, err := m.readFile(p, &f, file)
	if err == nil {
		if file == kernel.FileStat {
			err = p.identify(data)
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
func (m *membership) readUnproved(p *process, file kernel.ProcessFile) ([]byte, error) {
	f, err := m.open(p.PID, file)
	if err != nil {
		return nil, m.explain(p, err)
	}
	data, err := m.readFile(p, &f, file)
	_ = f.Close() // of what was only read
	return data, err
}

// readFile reads an open file of a process with as few system calls as its kind allows.
func (m *membership) readFile(p *process, f *kernel.File, file kernel.ProcessFile) (data []byte, err error) {
	switch buf := m.shared.Buffer; file {
	case kernel.FileStatm:
		// The one file that is read of every process in every sample. Reading it cannot sleep, but for the one time in a
		// process's life that this happens to be the last to hold the memory of a process that is ending.
		data, err = f.ReadNow(buf)
	case kernel.FileChildren: // the kernel hands it out a page at a time
		data, err = f.Read(buf)
	case kernel.FileCmdline:
		data, err = f.ReadHead(buf, kernel.CmdlineRead)
	default:
		data, err = f.ReadRecord(buf)
	}
	if data != nil {
		m.shared.Buffer = data
	}
	if err != nil {
		return nil, m.explain(p, err)
	}
	return data, nil
}

// stat reads and parses a process's stat, and copies what identifies it.
func (m *membership) stat(p *process) (kernel.ProcStat, error) {
	data, err := m.read(p, kernel.FileStat)
	if err != nil {
		return kernel.ProcStat{}, err
	}
	stat, err := kernel.ParseProcStat(data)
	if err == nil {
		p.setStat(&stat)
		p.orphaned = false
	}
	return stat, err
}

// statm reads and parses a process's statm, be it from a thread: see readThreads.
func (m *membership) statm(p *process) (kernel.ProcStatm, error) {
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
func (m *membership) outlivesMain(p *process) bool {
	stat, err := m.stat(p)
	outlives := err == nil && stat.Threads > 1
	if outlives && !p.leaderless {
		p.checkSoon() // the cgroup of the main thread is not that of the others any more
	}
	p.leaderless, p.ended = outlives, err == nil && !outlives
	return outlives
}

// clock reads a process's CPU clock where sources ask for such. It is the process's only if a read succeeds after it.
func (m *membership) clock(p *process) (time.Duration, error) {
	if !m.clocks || !m.target.FS.Live {
		return 0, errors.ErrUnsupported
	}
	return kernel.ProcessCPU(p.PID)
}

// explain marks a process dead whose file is gone, unless the file alone is: a zombie has no smaps_rollup.
func (m *membership) explain(p *process, err error) error {
	if kernel.Gone(err) {
		_ = m.verify(p)
	}
	return err
}

// verify returns nil where the process is still there, be it as a zombie, and marks it dead where it is not. A
// descriptor of a file below /proc/PID belongs to the process and not to the PID: reading it fails with ESRCH once
// that process is reaped, also if another one has the PID.
func (m *membership) verify(p *process) error {
	if p.dead {
		return errEnded
	}
	proof, opened := &p.kept[kernel.FileStatm], kernel.File{}
	var err error
	if !proof.IsOpen() {
		proof = &p.kept[kernel.FileStat]
	}
	if !proof.IsOpen() {
		opened, err = m.open(p.PID, kernel.FileStat)
		proof = &opened
	}
	if err == nil {
		m.shared.proof, err = proof.ReadRecord(m.shared.proof)
	}
	if opened.IsOpen() {
		if err = errors.Join(err, opened.Close()); err == nil {
			return p.identify(m.shared.proof)
		}
	}
	if kernel.Gone(err) {
		p.dead = true
		return errEnded
	}
	return err
}

// identify compares a freshly opened stat with the start time that is known.
func (p *process) identify(data []byte) error {
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

// mayKeep reports whether a file is to be kept open, and there is room for it. The statm of every process, which is
// read also of those at rest, takes precedence over other files.
func (m *membership) mayKeep(file kernel.ProcessFile) bool {
	room := m.maxKept - m.keptFiles
	if file != kernel.FileStatm {
		room -= len(m.pids)
	}
	return file < kernel.KeptProcessFiles && m.wants[file] && room > 0
}

// rest reports whether a process has run since it was last read whole. One that has not run has the same threads, has
// reaped no children, and has read and written nothing. Its state has changed only if it was woken and waits for a CPU.
// The clock is charged at each tick and switch: what a process does within its first tick shows one reading later, as
// in the clock itself.
type rest struct {
	// clock is the CPU clock before the last whole reading, which is good until wholeUntil.
	clock, wholeUntil time.Duration
	// still reports that the process has not run, carried that its memory is that of an earlier sample.
	still, carried bool
}

// wholeEvery is the longest time between two whole readings of a process at rest; they are spread over half of it.
const wholeEvery = 10 * time.Second

// findRest finds the processes that have not run since they were last read whole.
func (m *membership) findRest() {
	if !m.clocks || !m.target.FS.Live {
		return
	}
	for _, p := range m.procs {
		cpu, err := m.clock(p)
		p.still = err == nil && cpu != 0 && cpu == p.clock && m.collected < p.wholeUntil && !p.unreadable &&
			p.tree.state != 'R' && !p.orphaned && !p.leaderless && p.outside == 0
		if !p.still {
			p.clock, p.wholeUntil = cpu, m.collected+wholeEvery/2+time.Duration(p.PID%64)*wholeEvery/128
		}
	}
}

// keep keeps a descriptor open with its process where there is room for it.
func (m *membership) keep(p *process, file kernel.ProcessFile, f kernel.File) bool {
	if !m.mayKeep(file) {
		return false
	}
	p.kept[file] = f
	m.keptFiles++
	return true
}

// release closes all that is kept of a process.
func (m *membership) release(p *process) error {
	var errs error
	for i := range p.kept {
		if p.kept[i].IsOpen() {
			m.keptFiles--
			errs = errors.Join(errs, p.kept[i].Close())
		}
	}
	return errs
}

// cmdlineEvery is the least time between two readings of a command line, but for a new program.
const cmdlineEvery = 10 * time.Second

// cmdlineReading is what was last read of a process's command line.
type cmdlineReading struct {
	text    string
	fault   string
	at      time.Duration // Stamp.Mono of the sample; 0 before the first
	command string        // the name of the process then
	size    int64         // its address space then, in pages
}

// readCmdline reads a command line that can have changed: that of a new program, and that of a process whose address
// space is not as it was. Reading it waits for the lock of the process's memory, which a process that hangs in a page
// fault can hold for as long; such a process changes nothing, so it is left alone.
func (t *treeSource) readCmdline(p *process, now time.Duration) {
	c := &p.cmdline
	renamed, grown := c.command != p.command, c.size != p.tree.memory.Size
	if c.at != 0 && !renamed && (!grown || now-c.at < cmdlineEvery) {
		return
	}
	c.at, c.command, c.size = now, p.command, p.tree.memory.Size
	data, err := t.members.read(p, kernel.FileCmdline)
	if err != nil {
		c.text, c.fault = "", "read /proc/PID/cmdline: "+err.Error()
		return
	}
	text := kernel.ParseProcCmdline(data)
	if text == "" {
		c.at = 0 // read again next time: a program that is being started has no arguments yet
	}
	if renamed || text != "" {
		c.text = text // else it has ended: a zombie has none, and what it had stays
	}
	c.fault = ""
}

// reading returns the command line as a measurement.
func (c *cmdlineReading) reading() procstats.Reading {
	switch {
	case c.fault != "":
		return procstats.AbsentReading(procstats.ProcessCmdline, c.fault)
	case c.text == "":
		return procstats.AbsentReading(procstats.ProcessCmdline, "it has none: a kernel thread, or a process that has ended")
	}
	return procstats.TextReading(procstats.ProcessCmdline, c.text)
}
