// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/failpoint"
)

// slack is how much a file may exceed its limit to hold the end of its last line.
const slack = 16 << 10

// series are the files of one stream. It belongs to one goroutine.
type series struct {
	folder   *folder
	stem     string
	maxBytes int64
	maxFiles int
	// odd is called for each file that cannot be trusted or removed.
	odd func(name string, err error)

	file   *os.File
	number int64
	size   int64
	// inLine is set while the last line in the file has no end.
	inLine bool
	// full requests the next file before the next write.
	full bool
	// kept are the numbers of the existing files, ascending.
	kept []int64
}

// openSeries opens the newest file of a series, or makes its first or next one.
func openSeries(f *folder, stem string, o Options, odd func(name string, err error)) (*series, error) {
	s := &series{folder: f, stem: stem, maxBytes: o.MaxFileBytes, maxFiles: o.MaxFiles, odd: odd, number: -1}
	if err := s.list(); err != nil {
		return nil, err
	}
	if err := s.takeNewest(); err != nil {
		return nil, err
	}
	if s.file == nil {
		return s, s.next()
	}
	return s, nil
}

// list finds the newest file and removes excess ones.
func (s *series) list() error {
	s.kept = s.kept[:0]
	err := s.folder.each(func(name string) {
		if number, ok := fileNumber(s.stem, name); ok {
			s.keep(number)
		}
	})
	if len(s.kept) > 0 {
		s.number = max(s.number, s.kept[len(s.kept)-1])
	}
	return err
}

// keep adds a file, and removes the oldest if there are too many then.
func (s *series) keep(number int64) {
	at, found := slices.BinarySearch(s.kept, number)
	if found {
		return
	}
	s.kept = slices.Insert(s.kept, at, number)
	if len(s.kept) <= s.maxFiles {
		return
	}
	oldest := fileName(s.stem, s.kept[0])
	s.kept = slices.Delete(s.kept, 0, 1)
	if err := s.folder.remove(oldest); err != nil {
		s.odd(oldest, err)
	}
}

// takeNewest opens the newest file if it has room.
func (s *series) takeNewest() error {
	if len(s.kept) == 0 {
		return nil
	}
	name := fileName(s.stem, s.number)
	file, size, err := s.folder.append(name)
	switch {
	case errors.Is(err, errRefused):
		s.odd(name, err)
		return nil
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	case size >= s.maxBytes:
		return file.Close()
	}
	s.file, s.size = file, size
	return nil
}

// next switches to a new file, and removes the oldest if there are too many then. If no file can be made the series
// stays as it is, and next can be called again.
func (s *series) next() error {
	if err := failpoint.Err("logs.rotate"); err != nil {
		return err
	}
	number := s.number + 1
	file, err := s.folder.create(fileName(s.stem, number))
	for errors.Is(err, unix.EEXIST) {
		s.odd(fileName(s.stem, number), err)
		// The task made it, and perhaps many more: what is there is looked up, not tried one after the other.
		if err := s.list(); err != nil {
			return err
		}
		number = max(number, s.number) + 1
		file, err = s.folder.create(fileName(s.stem, number))
	}
	if err != nil {
		return err
	}
	if s.file != nil {
		err = s.file.Close() // tells late of a write that did not reach the disk
	}
	s.file, s.number, s.size, s.inLine, s.full = file, number, 0, false, false
	s.keep(number)
	return err
}

// write writes the part of p that belongs into the current file, or the next one if that is due, and returns its
// length, which is not 0 without an error.
func (s *series) write(p []byte) (n int, err error) {
	if err := s.look(); err != nil {
		return 0, err
	}
	length, full := s.fit(p)
	if length == 0 {
		s.full = true
	}
	if s.full {
		if err := s.next(); err != nil {
			return 0, err
		}
		length, full = s.fit(p)
	}
	n, err = s.file.Write(p[:length])
	if n > 0 {
		s.inLine = p[n-1] != '\n'
	}
	s.full = full && n == length
	return n, err
}

// look checks what others have done to the current file: if it, or a directory above it, was removed or replaced, the
// next file follows, in a directory that is made again, so that readers miss nothing from then on; a truncated one has
// room again.
func (s *series) look() error {
	var stat, there unix.Stat_t
	if err := unix.Fstat(int(s.file.Fd()), &stat); err != nil {
		return &os.PathError{Op: "stat", Path: s.file.Name(), Err: err}
	}
	s.size = stat.Size
	if name := s.file.Name(); !leadsTo(name, &stat, &there) {
		if err := s.folder.again(); err != nil {
			return err
		}
		s.full = true
		s.odd(filepath.Base(name), errRemoved)
	}
	s.inLine = s.inLine && stat.Size > 0
	return nil
}

// fit returns how much of p the current file takes, and whether it is full then. A file ends with the last line
// within its limit; a line that began in it may exceed the limit by the slack.
func (s *series) fit(p []byte) (length int, full bool) {
	room := max(0, s.maxBytes-s.size)
	if int64(len(p)) <= room {
		return len(p), false
	}
	if end := bytes.LastIndexByte(p[:room], '\n'); end >= 0 {
		return end + 1, true
	}
	if !s.inLine && s.size > 0 {
		return 0, true
	}
	most := int(min(int64(len(p)), max(0, s.maxBytes+slack-s.size)))
	if end := bytes.IndexByte(p[room:most], '\n'); end >= 0 {
		return int(room) + end + 1, true
	}
	return most, most < len(p)
}

// endLine ends the last line in the file.
func (s *series) endLine() error {
	if !s.inLine {
		return nil
	}
	_, err := s.write([]byte{'\n'})
	return err
}

func (s *series) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// folder is the log folder, held by a descriptor.
type folder struct {
	path string
	mu   sync.Mutex // guards dir, which both streams use
	dir  *os.File
}

// errRefused says that a file by the name of a log file is not a log file.
var errRefused = errors.New("not a regular file with one link")

// errRemoved says that a log file was removed, or a directory above it.
var errRemoved = errors.New("it was removed or replaced while the task ran")

// openFolder opens the log folder. Its parents are the host's, but the task may replace the folder itself, so a
// symbolic link is rejected.
func openFolder(path string) (*folder, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open log directory: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	return &folder{path: path, dir: os.NewFile(uintptr(fd), path)}, nil
}

// again makes the folder again, with the owner and the mode that it had, or takes the one that is there now, if its
// path does not lead to it any more. It does not follow a link in its place.
func (f *folder) again() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var held, there unix.Stat_t
	if err := unix.Fstat(int(f.dir.Fd()), &held); err != nil {
		return fmt.Errorf("stat log directory: %w", err)
	}
	if leadsTo(f.path, &held, &there) {
		return nil
	}
	const passing = 0o711 // as the parents of log directories have it
	if err := os.MkdirAll(filepath.Dir(f.path), passing); err != nil {
		return fmt.Errorf("make log directory again: %w", err)
	}
	err := unix.Mkdir(f.path, 0o700)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make log directory again: %w", &os.PathError{Op: "mkdir", Path: f.path, Err: err})
	}
	made := err == nil
	fresh, err := openFolder(f.path)
	if err != nil {
		return err
	}
	if made {
		err = errors.Join(fresh.dir.Chown(int(held.Uid), int(held.Gid)), fresh.dir.Chmod(os.FileMode(held.Mode&0o777)))
	}
	err = errors.Join(err, f.dir.Close())
	f.dir = fresh.dir
	return err
}

// leadsTo reports whether a path leads to a file, and not over a link.
func leadsTo(path string, file, there *unix.Stat_t) bool {
	return unix.Lstat(path, there) == nil && there.Dev == file.Dev && there.Ino == file.Ino
}

// create makes a new file for appending.
func (f *folder) create(name string) (*os.File, error) {
	const mode = 0o644 // readable for those who can enter the folder, as the task and what ships its logs may
	file, err := f.open(name, unix.O_CREAT|unix.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(mode); err != nil { // whatever the umask says
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// append opens an existing file for appending. The error wraps errRefused if it is not a log file.
func (f *folder) append(name string) (file *os.File, size int64, err error) {
	// O_NONBLOCK: a FIFO, which is refused below, would make open(2) wait for its reader.
	file, err = f.open(name, unix.O_NONBLOCK, 0)
	if err != nil {
		if isRefusal(err) {
			err = fmt.Errorf("%w: %w", errRefused, err)
		}
		return nil, 0, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return nil, 0, errors.Join(&os.PathError{Op: "stat", Path: file.Name(), Err: err}, file.Close())
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Nlink != 1 {
		return nil, 0, errors.Join(fmt.Errorf("open %s: %w", file.Name(), errRefused), file.Close())
	}
	return file, stat.Size, nil
}

// isRefusal reports whether open(2) failed because a name is not a file of ours: a symbolic link, a socket or FIFO, a
// device, a folder, a running program, a file of another user.
func isRefusal(err error) bool {
	return slices.ContainsFunc([]error{
		unix.ELOOP, unix.ENXIO, unix.ENODEV, unix.EISDIR, unix.ETXTBSY, unix.EACCES, unix.EPERM,
	}, func(refusal error) bool { return errors.Is(err, refusal) })
}

func (f *folder) open(name string, flags int, mode uint32) (*os.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	flags |= unix.O_WRONLY | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NOCTTY | unix.O_CLOEXEC
	path := f.path + "/" + name
	fd, err := unix.Openat(int(f.dir.Fd()), name, flags, mode)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// remove deletes a file. It ignores a missing file and a folder of that name.
func (f *folder) remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := unix.Unlinkat(int(f.dir.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EISDIR) {
		return nil
	}
	return &os.PathError{Op: "unlink", Path: f.path + "/" + name, Err: err}
}

// each visits the names in the folder, a few at a time: the task can make any number of files there.
func (f *folder) each(visit func(name string)) error {
	const atOnce = 128
	f.mu.Lock()
	dir := f.dir
	f.mu.Unlock()
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("list log directory: %w", err)
	}
	for {
		names, err := dir.Readdirnames(atOnce)
		for _, name := range names {
			visit(name)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list log directory: %w", err)
		}
	}
}

func (f *folder) close() error { return f.dir.Close() }
