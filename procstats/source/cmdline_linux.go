// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

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
func (t *Tree) readCmdline(p *process, now time.Duration) {
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
