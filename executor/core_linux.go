// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/regular"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// mostCores bounds how many core dumps are named, mostNames how many names of a directory are looked at.
const mostCores, mostNames = 16, 1 << 16

// cores finds the core dumps that the processes of the task have left, and reports each.
func (t *task) cores(status unix.WaitStatus) []record.Core {
	read := func(name string) string {
		text, _ := kernel.ReadFile(filepath.Join(kernel.HostFS().Proc, "sys/kernel", name)) // empty if it cannot be read
		return strings.TrimSpace(string(text))
	}
	pattern := read("core_pattern")
	if read("core_uses_pid") == "1" && !strings.Contains(pattern, "%p") && !strings.HasPrefix(pattern, "|") {
		pattern += ".%p"
	}
	cores := findCores(pattern, t.request.GetDir(), t.started, t.main.PID, status.Signaled() && status.CoreDump())
	for _, core := range cores {
		t.journal.add("core_dumped", core.Text(), nil)
	}
	return cores
}

// findCores finds what core(5) says of a pattern: new core files in a directory, or what became of that of the main
// process, if it dumped one.
func findCores(pattern, dir string, since time.Time, main int, dumped bool) (cores []record.Core) {
	if handler, piped := strings.CutPrefix(pattern, "|"); piped {
		if fields := strings.Fields(handler); dumped && len(fields) > 0 {
			cores = append(cores, record.Core{Handler: procstats.EscapeName(filepath.Base(fields[0]))})
		}
		return cores
	}
	where, name := filepath.Split(pattern)
	pid := strconv.Itoa(main)
	if !filepath.IsAbs(pattern) { // not of all processes of the machine
		where, pid = filepath.Join(dir, where), "*"
	} else if !dumped {
		return nil
	}
	if f, err := os.Open(where); err == nil {
		defer f.Close()
		names, _ := f.Readdirnames(mostNames) // those that can be read
		glob := coreGlob(name, pid)
		names = slices.DeleteFunc(names, func(found string) bool {
			matches, _ := filepath.Match(glob, found)
			return !matches
		})
		slices.Sort(names)
		for _, found := range names {
			path := filepath.Join(where, found)
			if size, ok := coreSize(path, since); ok && len(cores) < mostCores {
				cores = append(cores, record.Core{Path: procstats.EscapeName(path), Bytes: size})
			}
		}
	}
	if len(cores) == 0 && dumped {
		cores = append(cores, record.Core{})
	}
	return cores
}

// coreGlob returns the names that a pattern can become, for [filepath.Match].
func coreGlob(pattern, pid string) string {
	pairs := []string{"*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`, "%%", "%", "%p", pid, "%P", pid}
	for _, verb := range "ugdsthefEcCiIF" {
		pairs = append(pairs, "%"+string(verb), "*")
	}
	return strings.NewReplacer(pairs...).Replace(pattern)
}

// coreSize returns the size of a core file that was written since a time; ok is false for all other files.
func coreSize(name string, since time.Time) (size int64, ok bool) {
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.ModTime().Before(since.Add(-time.Second)) {
		return 0, false
	}
	f, err := regular.Open(name)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	const typeAt, core = 16, 4 // elf(5): e_type is ET_CORE
	head := make([]byte, typeAt+2)
	_, err = io.ReadFull(f, head)
	return info.Size(), err == nil && bytes.HasPrefix(head, []byte("\x7fELF")) && slices.Contains(head[typeAt:], core)
}
