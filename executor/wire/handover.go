// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	googleproto "google.golang.org/protobuf/proto"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
)

// Handover is what a caller that reads the task beside its executor leaves in the executor's directory: the executor sleeps
// while the task runs, and needs it for the final record. All but Last may be nil.
type Handover struct {
	// Last and Before are the newest two samples; their rows are not handed over.
	Last, Before *procstats.Sample
	// Rows is the newest sample with rows.
	Rows *procstats.Sample
}

const (
	handoverFile = "samples"
	// handedRowsFile has the rows, which are of many ticks.
	handedRowsFile = "rows"
	// handoverHeader is the size of the content and its checksum: the executor may read while its caller writes.
	handoverHeader = 8
)

var errTorn = errors.New("incomplete")

// ErrRows is wrapped by the error of rows that could not be written: the samples were, and the rows are tried again.
var ErrRows = errors.New("write rows")

// HandoverWriter writes the handovers of one task, each in place of the one before.
type HandoverWriter struct {
	folder string
	file   *os.File
	rows   *procstats.Sample // as last written
}

// OpenHandover opens the file in an executor's directory.
func OpenHandover(folder string) (*HandoverWriter, error) {
	file, err := openToWrite(filepath.Join(folder, handoverFile))
	if err != nil {
		return nil, fmt.Errorf("open samples of executor: %w", err)
	}
	return &HandoverWriter{folder: folder, file: file}, nil
}

func openToWrite(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
}

// Write replaces the handover; without rows, those of the one before stay. It is encoded in the caller's memory. After an error that does
// not wrap [ErrRows] the file is to be closed.
func (w *HandoverWriter) Write(h Handover, memory *[]byte) error {
	var rows error
	if h.Rows != nil && h.Rows != w.rows {
		if err := w.writeRows(h.Rows, memory); err != nil {
			rows = fmt.Errorf("%w: %w", ErrRows, err)
		} else {
			w.rows = h.Rows
		}
	}
	*memory = appendNewest(header((*memory)[:0]), h)
	if err := seal(w.file, *memory); err != nil {
		return fmt.Errorf("write samples: %w", err)
	}
	return rows
}

// writeRows opens the file for each set: a descriptor for each task would be open in vain nearly all the time.
func (w *HandoverWriter) writeRows(rows *procstats.Sample, memory *[]byte) error {
	file, err := openToWrite(filepath.Join(w.folder, handedRowsFile))
	if err != nil {
		return err
	}
	*memory = appendRows(header((*memory)[:0]), rows)
	return errors.Join(seal(file, *memory), file.Close())
}

// header appends an empty header.
func header(b []byte) []byte { return append(b, make([]byte, handoverHeader)...) }

// seal fills the header in and writes all.
func seal(file *os.File, b []byte) error {
	content := b[handoverHeader:]
	binary.LittleEndian.PutUint32(b, uint32(len(content))) //nolint:gosec // far below 4 GiB
	binary.LittleEndian.PutUint32(b[4:], crc32.ChecksumIEEE(content))
	_, err := file.WriteAt(b, 0)
	return err
}

// Close closes the file, which stays.
func (w *HandoverWriter) Close() error { return w.file.Close() }

// ReadHandover reads the newest handover; the error wraps fs.ErrNotExist if there is none.
func ReadHandover(folder string) (*Handover, error) {
	m, err := readHandover(filepath.Join(folder, handoverFile))
	if err != nil {
		return nil, fmt.Errorf("read samples of caller: %w", err)
	}
	h := &Handover{Last: ToSample(m.GetLast())}
	switch {
	case m.GetBefore() != nil:
		h.Before = ToSample(m.GetBefore())
	case m.GetBeforeChanges() != nil:
		h.Before = ToSample(m.GetBeforeChanges())
		h.Before.Task = overlay(h.Last.Task, h.Before.Task)
	}
	if m.GetRows() != nil { // a build that writes one file
		h.Rows = ToSample(m.GetRows())
	}
	// Rows that are missing or torn are none: the samples are not the less for it.
	if apart, err := readHandover(filepath.Join(folder, handedRowsFile)); err == nil {
		if rows := ToSample(apart.GetRows()); h.Rows == nil || h.Rows.Mono < rows.Mono {
			h.Rows = rows
		}
	}
	return h, nil
}

func readHandover(path string) (*proto.Handover, error) {
	const tries = 3 // a write takes microseconds
	var content []byte
	var err error
	for range tries {
		if content, err = readSealed(path); !errors.Is(err, errTorn) {
			break
		}
	}
	var m proto.Handover
	if err == nil {
		err = googleproto.Unmarshal(content, &m)
	}
	return &m, err
}

func readSealed(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(text) < handoverHeader {
		return nil, errTorn
	}
	size, content := binary.LittleEndian.Uint32(text), text[handoverHeader:]
	if uint64(size) > uint64(len(content)) || crc32.ChecksumIEEE(content[:size]) != binary.LittleEndian.Uint32(text[4:]) {
		return nil, errTorn
	}
	return content[:size], nil
}
