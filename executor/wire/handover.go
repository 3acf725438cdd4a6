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
	// handoverHeader is the size of the content and its checksum: the executor may read while its caller writes.
	handoverHeader = 8
)

var errTorn = errors.New("incomplete")

// HandoverWriter writes the handovers of one task, each in place of the one before.
type HandoverWriter struct{ file *os.File }

// OpenHandover opens the file in an executor's directory.
func OpenHandover(folder string) (*HandoverWriter, error) {
	file, err := os.OpenFile(filepath.Join(folder, handoverFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open samples of executor: %w", err)
	}
	return &HandoverWriter{file: file}, nil
}

// Write replaces the handover. It is encoded in the caller's memory.
func (w *HandoverWriter) Write(h Handover, memory *[]byte) error {
	b := appendHandover(append((*memory)[:0], make([]byte, handoverHeader)...), h)
	*memory = b
	content := b[handoverHeader:]
	binary.LittleEndian.PutUint32(b, uint32(len(content))) //nolint:gosec // far below 4 GiB
	binary.LittleEndian.PutUint32(b[4:], crc32.ChecksumIEEE(content))
	if _, err := w.file.WriteAt(b, 0); err != nil {
		return fmt.Errorf("write samples: %w", err)
	}
	return nil
}

// Close closes the file, which stays.
func (w *HandoverWriter) Close() error { return w.file.Close() }

// ReadHandover reads the newest handover; the error wraps fs.ErrNotExist if there is none.
func ReadHandover(folder string) (*Handover, error) {
	const tries = 3 // a write takes microseconds
	var content []byte
	var err error
	for range tries {
		if content, err = readHandover(filepath.Join(folder, handoverFile)); !errors.Is(err, errTorn) {
			break
		}
	}
	var m proto.Handover
	if err == nil {
		err = googleproto.Unmarshal(content, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("read samples of caller: %w", err)
	}
	h := &Handover{Last: ToSample(m.GetLast())}
	if m.GetBefore() != nil {
		h.Before = ToSample(m.GetBefore())
	}
	if m.GetRows() != nil {
		h.Rows = ToSample(m.GetRows())
	}
	return h, nil
}

func readHandover(path string) ([]byte, error) {
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
