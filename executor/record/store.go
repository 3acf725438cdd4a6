// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/internal/regular"
	"github.com/tachograph/tacho/internal/series"
)

// The files of a run's folder. All are 0600 in a folder of 0700: command lines and what a task used are its
// user's own business.
const (
	// InfoFile holds the Record, replaced as a whole.
	InfoFile = "info.json"
	// UsageFile holds one Usage a line, appended.
	UsageFile = "usage.jsonl"
	// SamplesFile holds one point a row, at most about 500 however long the run is.
	SamplesFile = "samples.csv"
)

// DefaultRoot is where runs are kept by default, below the folder tacho was called in.
const DefaultRoot = ".tacho/runs"

// Store writes the files of one run. Put and Sync, Append and AddSample touch different files: each may be called by
// one goroutine at a time, all at once.
type Store struct {
	dir string
	// root and usage are descriptors, so that a run writes on where its folder is, even when it was renamed.
	root  *os.Root
	usage *os.File
	// provisional is the length of the last line if the next one replaces it, otherwise 0.
	provisional int64

	samples *series.CSV
}

// Create makes the folder of a new run, and the folders above it, with mode 0700, and an empty usage.jsonl.
// The folder of another run is rejected with fs.ErrExist, also if that run is being created at the same time.
func Create(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	s, err := open(dir, os.O_CREATE|os.O_EXCL)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create run directory: %s belongs to another run: %w", dir, fs.ErrExist)
	}
	return s, err
}

// Open opens the folder of a run that Create made, to write its record on.
func Open(dir string) (*Store, error) { return open(dir, 0) }

func open(dir string, create int) (*Store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open run directory: %w", err)
	}
	usage, err := root.OpenFile(UsageFile, os.O_RDWR|os.O_APPEND|create, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", filepath.Join(dir, UsageFile), err), root.Close())
	}
	return &Store{dir: dir, root: root, usage: usage, samples: series.NewCSV(root, SamplesFile)}, nil
}

// Dir returns the run's folder as it was given.
func (s *Store) Dir() string { return s.dir }

// Close gives up the run's files. What was written stays.
func (s *Store) Close() error { return errors.Join(s.samples.Close(), s.usage.Close(), s.root.Close()) }

// Put replaces info.json as a whole: a reader sees the old record or the new one, also after a crash. That of a run
// that goes on can be lost with the machine until Sync: its start does not wait for a disk.
func (s *Store) Put(r *Record) error {
	content, err := encode(r, "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", s.path(InfoFile), err)
	}
	temporary := temporaryName()
	if err := s.replace(temporary, content, r.State != Running); err != nil {
		// A file that was never made cannot be removed; the first error is the one to tell.
		_ = s.root.Remove(temporary)
		return fmt.Errorf("write %s: %w", s.path(InfoFile), err)
	}
	return nil
}

// reservation is the room that Reserve holds, in bytes: a record with many processes has about half of it.
const reservation = 64 << 10

// Reserve holds room on the disk for the next Put: how a run ended can be written although its disk is full by then.
func (s *Store) Reserve() error {
	name := temporaryName()
	file, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("reserve room for %s: %w", s.path(InfoFile), err)
	}
	_, err = file.Write(make([]byte, reservation))
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("reserve room for %s: %w", s.path(InfoFile), errors.Join(err, s.root.Remove(name)))
	}
	return nil
}

// RemoveTemporary removes what was reserved, also by other writers of the record, which are dead.
func (s *Store) RemoveTemporary() error {
	files, err := fs.ReadDir(s.root.FS(), ".")
	for _, file := range files {
		if !strings.HasPrefix(file.Name(), "."+InfoFile+".") {
			continue
		}
		if removeErr := s.root.Remove(file.Name()); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}

// temporaryName is that of the file which replaces the record. The writer's PID is in it because a run's starter
// writes the record on if its executor was lost.
func temporaryName() string { return fmt.Sprintf(".%s.%d", InfoFile, os.Getpid()) }

func (s *Store) replace(temporary string, content []byte, synced bool) error {
	file, err := s.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err = failpoint.Err("run.record.put"); err == nil {
		_, err = file.Write(content)
	}
	if err == nil {
		err = file.Truncate(int64(len(content))) // it may be a reservation
	}
	if err == nil && synced {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	failpoint.At("run.record.rename")
	if err := s.root.Rename(temporary, InfoFile); err != nil || !synced {
		return err
	}
	return s.syncFolder()
}

// Sync makes the last record that was put outlive the machine.
func (s *Store) Sync() error {
	file, err := s.root.Open(InfoFile)
	if err == nil {
		err = errors.Join(file.Sync(), file.Close())
	}
	if err == nil {
		err = s.syncFolder()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", s.path(InfoFile), err)
	}
	return nil
}

// syncFolder makes the rename last, rename(2). Windows has no fsync of folders.
func (s *Store) syncFolder() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := s.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Append adds one line to usage.jsonl, whole or not at all as far as the disk lets it. It is not synced: a line
// outlives the process, and a crash of the machine can cost the last ones. The next line replaces a provisional one: it
// begins where that began.
func (s *Store) Append(u *Usage, provisional bool) error {
	if err := s.append(u, provisional); err != nil {
		return fmt.Errorf("write %s: %w", s.path(UsageFile), err)
	}
	return nil
}

func (s *Store) append(u *Usage, provisional bool) error {
	line, err := encode(u, "")
	if err != nil {
		return err
	}
	size, err := s.usage.Seek(0, io.SeekEnd)
	if err == nil && s.provisional > 0 {
		size -= s.provisional
		err = s.usage.Truncate(size)
	}
	s.provisional = 0
	if err != nil {
		return err
	}
	whole, err := s.lastLineWhole(size)
	if err != nil {
		return err
	}
	if !whole {
		line = append([]byte{'\n'}, line...)
	}
	if err = failpoint.Err("run.record.append"); err == nil {
		_, err = s.usage.Write(line)
	}
	if err != nil {
		// Half a line on a full disk would make the next one unreadable as well.
		return errors.Join(err, s.usage.Truncate(size))
	}
	if provisional {
		s.provisional = int64(len(line))
	}
	return nil
}

// AddSample adds the point of one sample to samples.csv. It may be written later, together with those that follow.
func (s *Store) AddSample(p *series.Point) error { return s.samples.Add(p) }

// lastLineWhole reports whether the file ends in a newline: an earlier writer may have been cut off.
func (s *Store) lastLineWhole(size int64) (bool, error) {
	if size == 0 {
		return true, nil
	}
	last := make([]byte, 1)
	if _, err := s.usage.ReadAt(last, size-1); err != nil {
		return false, err
	}
	return last[0] == '\n', nil
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// encode leaves <, > and & as they are: command lines are full of them, and these files are never embedded in HTML.
func encode(value any, indent string) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// ErrForeign is wrapped by the errors for files that are JSON and not a record of ours, or one of a later major
// version of the schema.
var ErrForeign = errors.New("not a record that this version reads")

// maxRecord is more than any record has.
const maxRecord = 64 << 20

// Read reads the record of the run in dir. The error names the file and, where its text is at fault, the line;
// it wraps fs.ErrNotExist where the folder holds no record.
func Read(dir string) (*Record, error) { return read(new(bytes.Buffer), dir, false) }

// read reads a record, or, briefly, what shorten leaves of it.
func read(text *bytes.Buffer, dir string, brief bool) (r *Record, err error) {
	path := filepath.Join(dir, InfoFile)
	if err := regular.ReadInto(text, path, maxRecord); err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	if brief {
		r = new(Record)
		if short := shorten(text.Bytes()); short != nil && json.Unmarshal(short, r) == nil && r.ours() {
			return r, nil
		}
	}
	if r, err = Decode(text.Bytes()); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// Decode reads a record from the text of an info.json. Fields that this version does not know are passed over.
func Decode(content []byte) (*Record, error) { return decode[Record](content, 1) }

// decode reads a text that begins in a line of its file.
func decode[T any](text []byte, line int) (*T, error) {
	value := new(T)
	err := json.Unmarshal(text, value)
	if v, versioned := any(value).(interface{ ours() bool }); versioned && err == nil && v.ours() {
		return value, nil
	}
	if err := checkSchema(text, line); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, placed(err, text, line)
	}
	return value, nil
}

// ReadUsage yields the lines of the run's usage.jsonl in order. A line that cannot be read yields an error with
// file and line, and reading goes on behind it. A last line without its newline is still being written, or its
// writer was cut off: it is passed over.
func ReadUsage(dir string) iter.Seq2[*Usage, error] {
	path := filepath.Join(dir, UsageFile)
	return func(yield func(*Usage, error) bool) {
		file, err := regular.Open(path)
		if err != nil {
			yield(nil, fmt.Errorf("read usage: %w", err))
			return
		}
		defer file.Close()
		decodeLines(file, path, yield)
	}
}

func decodeLines(text io.Reader, path string, yield func(*Usage, error) bool) {
	reader := bufio.NewReader(text)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			yield(nil, fmt.Errorf("read %s: line %d: %w", path, number, err))
			return
		}
		u, err := decode[Usage](line, number)
		if errors.Is(err, ErrForeign) {
			err = fmt.Errorf("line %d: %w", number, err)
		}
		if err != nil {
			err = fmt.Errorf("read %s: %w", path, err)
		}
		if !yield(u, err) {
			return
		}
	}
}

// checkSchema refuses what is not ours, whose fields would be taken for something else.
func checkSchema(content []byte, line int) error {
	var head struct {
		SchemaVersion *string `json:"schema_version"`
	}
	if len(bytes.TrimSpace(content)) == 0 {
		return fmt.Errorf("the file is empty: %w", ErrForeign)
	}
	if err := json.Unmarshal(content, &head); err != nil {
		return placed(err, content, line)
	}
	if head.SchemaVersion == nil {
		return fmt.Errorf("it has no schema_version: %w", ErrForeign)
	}
	if ours, _, _ := strings.Cut(SchemaVersion, "."); !(Version{SchemaVersion: *head.SchemaVersion}).ours() {
		return fmt.Errorf("schema_version %q, not %s.x: %w", *head.SchemaVersion, ours, ErrForeign)
	}
	return nil
}

// placed adds the line to an error of encoding/json, which knows the offset.
func placed(err error, content []byte, first int) error {
	offset := int64(len(content))
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		offset = syntax.Offset
	} else if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
		// A field of an embedded part has the part's name before it, which is exported, as no key in JSON is.
		keys := slices.DeleteFunc(strings.Split(kind.Field, "."), token.IsExported)
		offset = kind.Offset
		err = errors.New(strings.TrimPrefix(strings.Join(keys, ".")+": unexpected "+kind.Value, ": "))
	}
	before := content[:min(offset, int64(len(content)))]
	return fmt.Errorf("line %d: %w", first+bytes.Count(bytes.TrimRight(before, "\n"), []byte{'\n'}), err)
}
