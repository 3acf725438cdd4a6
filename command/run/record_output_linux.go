// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/command/summary"
	"github.com/tachograph/tacho/executor/record"
)

// recordOutput is where --record-file or --record-fd want the final record; a nil one is stderr.
type recordOutput struct {
	file *os.File
	// path is set where the file was not there before.
	path string
	// given is a descriptor that somebody else opened: where it stands is their affair.
	given bool
}

// openOutput opens what --record-file or --record-fd name before the command starts, so that a place that cannot be
// written to is known in time. What is in the file stays there until the command has started.
func (o *runOptions) openOutput() (*recordOutput, error) {
	switch {
	case o.recordFile != "":
		file, err := os.OpenFile(o.recordFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			return &recordOutput{file: file, path: o.recordFile}, nil
		}
		if errors.Is(err, fs.ErrExist) { // O_CREATE too: it may be a symbolic link to a file to come
			file, err = os.OpenFile(o.recordFile, os.O_WRONLY|os.O_CREATE, 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("--record-file: %w", err)
		}
		return &recordOutput{file: file}, nil
	case o.recordFD > 0:
		flags, err := unix.FcntlInt(uintptr(o.recordFD), unix.F_GETFL, 0)
		if err != nil {
			return nil, cli.Usagef("--record-fd %d: no such descriptor is open", o.recordFD)
		}
		if flags&unix.O_ACCMODE == unix.O_RDONLY {
			return nil, cli.Usagef("--record-fd %d: it is open for reading only", o.recordFD)
		}
		unix.CloseOnExec(o.recordFD)
		return &recordOutput{file: os.NewFile(uintptr(o.recordFD), "record-fd"), given: true}, nil
	}
	return nil, nil //nolint:nilnil // nothing was asked for
}

// empty takes out what a file had from before: from now on it is this run's.
func (r *recordOutput) empty() error {
	if r == nil || r.given {
		return nil
	}
	info, err := r.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return r.file.Truncate(0)
}

// discard gives up an output that nothing was written to.
func (r *recordOutput) discard() error {
	if r == nil {
		return nil
	}
	err := r.file.Close()
	if r.path != "" {
		err = errors.Join(err, os.Remove(r.path))
	}
	return err
}

// report writes what --format and --summary ask for.
func (s *session) report(final *record.Record) error {
	out, silent := s.cmd.ErrOrStderr(), s.options.quiet || s.options.summary.String() == "none"
	if s.output != nil {
		out, silent = s.output.file, false
	} else if !silent || s.options.format.String() == "json" {
		s.screen.endLine()
	}
	var err error
	switch {
	case s.options.format.String() == "json":
		err = cli.PrintJSON(out, final)
	case !silent:
		err = s.summarize(out, final)
	}
	if s.output != nil {
		err = errors.Join(err, s.output.file.Close())
	}
	return err
}

func (s *session) summarize(out io.Writer, final *record.Record) error {
	name := s.id
	if s.dir == "" {
		name = ""
	}
	return summary.Write(s.cmd, out, s.options.summary.String() == "full", name, final)
}
