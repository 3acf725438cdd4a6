// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/failpoint"
)

// recordOutput is the destination of the final record by --record-file or --record-fd; nil for stderr.
type recordOutput struct {
	file *os.File
	// path is set if the file was created.
	path string
	// inherited is set for a descriptor of the caller, who owns its offset.
	inherited bool
}

// openOutput opens the destination before the command starts, to fail early. The file keeps its contents until the
// command has started.
func (o *runOptions) openOutput() (*recordOutput, error) {
	switch {
	case o.recordFile != "":
		file, err := os.OpenFile(o.recordFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			return &recordOutput{file: file, path: o.recordFile}, nil
		}
		if errors.Is(err, fs.ErrExist) { // with O_CREATE: it may be a symbolic link to a file that does not exist
			file, err = os.OpenFile(o.recordFile, os.O_WRONLY|os.O_CREATE, 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("--record-file: %w", err)
		}
		return &recordOutput{file: file}, nil
	case o.recordFD > 0:
		flags, err := unix.FcntlInt(uintptr(o.recordFD), unix.F_GETFL, 0)
		if err != nil {
			return nil, cli.Usagef("--record-fd %d: not an open file descriptor", o.recordFD)
		}
		if flags&unix.O_ACCMODE == unix.O_RDONLY {
			return nil, cli.Usagef("--record-fd %d: open for reading only", o.recordFD)
		}
		fd := o.recordFD
		if fd <= unix.Stderr { // errors are printed there after the record
			if fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
				return nil, fmt.Errorf("--record-fd %d: %w", o.recordFD, err)
			}
		}
		unix.CloseOnExec(fd)
		return &recordOutput{file: os.NewFile(uintptr(fd), "record-fd"), inherited: true}, nil
	}
	return nil, nil //nolint:nilnil // stderr
}

// truncate deletes the previous contents of a file.
func (r *recordOutput) truncate() error {
	if r == nil || r.inherited {
		return nil
	}
	info, err := r.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return r.file.Truncate(0)
}

// discard closes an unused destination and removes the file if it was created.
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

// report writes the result to the chosen destination.
func (s *session) report(final *record.Record) error {
	name := rundir.Word(s.options.outputDir, s.id)
	if s.dir == "" {
		name = ""
	}
	if err := failpoint.Err("run.end.report"); err != nil {
		return err
	}
	if s.output != nil {
		return errors.Join(s.options.writeResult(s.cmd, s.output.file, name, final), s.output.file.Close())
	}
	if s.options.silent() {
		return nil
	}
	s.screen.endLine()
	return s.options.writeResult(s.cmd, s.cmd.ErrOrStderr(), name, final)
}

// blockDevice returns the major:minor of a block device. name is that, or a path.
func blockDevice(name string) (string, error) {
	if !strings.Contains(name, "/") {
		return name, nil
	}
	var stat unix.Stat_t
	if err := unix.Stat(name, &stat); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", fmt.Errorf("%s: not a block device (lsblk lists them)", name)
	}
	return fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev)), nil
}
