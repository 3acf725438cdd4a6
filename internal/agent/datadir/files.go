// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tachograph/tacho/procstats/kernel"
)

// errHidden is returned for files that no client may read.
var errHidden = fmt.Errorf("not shown: secrets of tasks and files of the agent: %w", fs.ErrPermission)

// within is a path from the allocation's directory, as os.Root takes it.
func within(name string) (string, error) {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	first, rest, _ := strings.Cut(name, "/")
	second, _, _ := strings.Cut(rest, "/")
	if strings.HasPrefix(first, ".") || second == "secrets" {
		return "", errHidden
	}
	return cmp.Or(name, "."), nil
}

// Info is what a file or directory is. OtherMount says that it lies on another mount than the allocation's directory: a
// task has mounted it, and it is not the task's own.
type Info struct {
	fs.FileInfo
	OtherMount bool
}

// info returns what an entry of an open directory is, or with an empty name the open file itself.
func (a Allocation) info(f *os.File, name string, info fs.FileInfo) Info {
	own, known := kernel.MountID(nil, string(a))
	mount, ok := kernel.MountID(f, name)
	return Info{info, known && ok && mount != own}
}

// List returns what is in a directory, by a path from the allocation's directory.
func (a Allocation) List(name string) (infos []Info, err error) {
	f, err := a.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	for _, entry := range entries {
		if _, hidden := within(path.Join(name, entry.Name())); hidden != nil {
			continue
		}
		if info, err := entry.Info(); err == nil { // else it is gone meanwhile
			infos = append(infos, a.info(f, entry.Name(), info))
		}
	}
	return infos, nil
}

// Stat returns what a file or directory is.
func (a Allocation) Stat(name string) (info Info, err error) {
	f, err := a.open(name)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	stat, err := f.Stat()
	if err != nil {
		return info, fmt.Errorf("read file: %w", err)
	}
	return a.info(f, "", stat), nil
}

// Open opens a regular file.
func (a Allocation) Open(name string) (*os.File, error) {
	f, err := a.open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file: %w", name, fs.ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("read file: %w", errors.Join(err, f.Close()))
	}
	return f, nil
}

// open opens a file of any type, without waiting for the other end of a pipe.
func (a Allocation) open(name string) (*os.File, error) {
	name, err := within(name)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(string(a))
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err = errors.Join(err, root.Close()); err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	return f, nil
}

// logFile is one of a stream's files.
type logFile struct {
	name   string
	number int
}

// logFiles lists a stream's files, oldest first.
func logFiles(root *os.Root, task, stream string) ([]logFile, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var files []logFile
	for _, entry := range entries {
		number, ok := strings.CutPrefix(entry.Name(), task+"."+stream+".")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n < 0 || !entry.Type().IsRegular() {
			continue
		}
		files = append(files, logFile{name: entry.Name(), number: n})
	}
	slices.SortFunc(files, func(a, b logFile) int { return cmp.Compare(a.number, b.number) })
	return files, nil
}

// Log reads a stream's files as one. Data that is appended to the last file after OpenLog follows at the end.
type Log struct {
	// Last is the number of the newest file.
	Last   int
	paths  []string
	files  []*os.File
	starts []int64 // of each file within the whole
	size   int64
	offset int64
}

// WholeLog is the number before that of the first file.
const WholeLog = -1

// LogsLost returns why nothing that tasks write can be read, and nil while it can: a directory that was removed is made
// again with the next output, but not where something else is.
func (a Allocation) LogsLost() error {
	if info, err := os.Lstat(a.Logs()); err == nil && !info.IsDir() {
		return fmt.Errorf("%s was replaced: what the tasks write is lost until it is a directory again", a.Logs())
	}
	return nil
}

// OpenLog opens the files of a stream that follow the one with a number, which may be gone by now. The error wraps
// fs.ErrNotExist if there are no files.
func (a Allocation) OpenLog(task, stream string, after int) (log *Log, err error) {
	root, err := os.OpenRoot(a.Logs())
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	files, err := logFiles(root, task, stream)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := new(Log)
	for _, f := range files {
		if f.number <= after {
			continue
		}
		file, err := root.Open(f.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open log: %w", err), l.Close())
		}
		info, err := file.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return nil, errors.Join(fmt.Errorf("open log: %s is not a file", f.name), err, file.Close(), l.Close())
		}
		l.paths, l.files = append(l.paths, filepath.Join(a.Logs(), f.name)), append(l.files, file)
		l.starts, l.Last = append(l.starts, l.size), f.number
		l.size += info.Size()
	}
	if len(l.files) == 0 {
		return nil, fmt.Errorf("open log: %s of task %s: %w", stream, task, fs.ErrNotExist)
	}
	return l, nil
}

// Position is the file that the last byte was read from, and the position after it there.
func (l *Log) Position() (path string, offset int64) {
	for i, start := range slices.Backward(l.starts) {
		if l.offset > start || i == 0 {
			return l.paths[i], l.offset - start
		}
	}
	return "", 0
}

// Read implements io.Reader.
func (l *Log) Read(p []byte) (int, error) {
	for i, start := range slices.Backward(l.starts) {
		if l.offset < start {
			continue
		}
		n, err := l.files[i].ReadAt(p, l.offset-start)
		l.offset += int64(n)
		l.size = max(l.size, l.offset)
		if n > 0 && errors.Is(err, io.EOF) {
			err = nil
		}
		return n, err
	}
	return 0, io.EOF
}

// Seek implements io.Seeker.
func (l *Log) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += l.offset
	case io.SeekEnd:
		offset += l.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek log: %w", fs.ErrInvalid)
	}
	l.offset = offset
	return offset, nil
}

// Close implements io.Closer.
func (l *Log) Close() error {
	errs := make([]error, 0, len(l.files))
	for _, f := range l.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
