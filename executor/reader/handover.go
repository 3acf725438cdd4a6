// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package reader

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
)

// Handover is what a process that reads a task beside its executor leaves in the executor's directory: for the
// executor, which sleeps while the task runs and has no samples of its own to name the victim of an OOM kill and to
// complete the record, and for the next process that reads the task. All fields may be nil.
type Handover struct {
	// Last and Before are the newest two samples, without their process rows.
	Last, Before *procstats.Sample
	// Rows is the newest sample with process rows.
	Rows *procstats.Sample
	// Counted is what the ended processes have used.
	Counted *record.Handed
}

const (
	handoverFile = "handover"
	// handoverVersion is in the header of each slot; a slot of another version is ignored.
	handoverVersion = 1
	// headerSize has the version of a slot, the size of its content and the CRC-32 of that, 4 bytes each.
	headerSize = 12
	// slotSize is the distance of slots in the file, which is sparse. The last one may be larger.
	slotSize = 1 << 20
)

// The slots of a handover. Samples are written to two slots in turn: one of them is complete at any time.
const (
	sampleSlots = 2
	commandSlot = 2
	rowSlot     = 3
)

// HandoverWriter writes the handovers of one task.
type HandoverWriter struct {
	file  *os.File
	slot  int               // of the next sample
	rows  *procstats.Sample // as last written
	ended int64             // processes and lost records of the commands last written
	lost  int64
}

// Memory is what handovers are encoded in, for all tasks of a process.
type Memory struct {
	packer wire.Packer
	buffer []byte
}

// OpenHandover opens the file in an executor's directory.
func OpenHandover(folder string) (*HandoverWriter, error) {
	file, err := os.OpenFile(filepath.Join(folder, handoverFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open handover: %w", err)
	}
	return &HandoverWriter{file: file}, nil
}

// Write hands a sample over, and the newest rows if they have changed.
func (w *HandoverWriter) Write(last, rows *procstats.Sample, m *Memory) error {
	if rows != nil && rows != w.rows {
		if err := w.writeSample(rowSlot, rows, m); err != nil {
			return err
		}
		w.rows = rows
	}
	w.slot = (w.slot + 1) % sampleSlots
	return w.writeSample(w.slot, last, m)
}

func (w *HandoverWriter) writeSample(slot int, s *procstats.Sample, m *Memory) error {
	content, err := m.packer.Append(header(m.buffer), s, slot == rowSlot)
	if err != nil {
		return fmt.Errorf("encode handover: %w", err)
	}
	m.buffer = content
	return w.writeSlot(slot, content)
}

// WriteCommands hands over what ended processes have used, if any has ended or was lost since the last time.
func (w *HandoverWriter) WriteCommands(counted *record.Handed) error {
	ended, lost := counted.Commands.Processes(), counted.Commands.LostRecords
	if ended == w.ended && lost == w.lost {
		return nil
	}
	text, err := json.Marshal(counted)
	if err != nil {
		return fmt.Errorf("encode handover: %w", err)
	}
	if err := w.writeSlot(commandSlot, append(header(nil), text...)); err != nil {
		return err
	}
	w.ended, w.lost = ended, lost
	return nil
}

// header returns memory that begins with an empty header.
func header(buffer []byte) []byte { return append(buffer[:0], make([]byte, headerSize)...) }

// writeSlot fills in the header before the content and writes both at once.
func (w *HandoverWriter) writeSlot(slot int, text []byte) error {
	content := text[headerSize:]
	if slot != rowSlot && len(text) > slotSize {
		return fmt.Errorf("write handover: %d bytes do not fit", len(text))
	}
	binary.LittleEndian.PutUint32(text, handoverVersion)
	binary.LittleEndian.PutUint32(text[4:], uint32(len(content))) //nolint:gosec // far below 4 GiB
	binary.LittleEndian.PutUint32(text[8:], crc32.ChecksumIEEE(content))
	if _, err := w.file.WriteAt(text, int64(slot)*slotSize); err != nil {
		return fmt.Errorf("write handover: %w", err)
	}
	return nil
}

// Close closes the file, which stays.
func (w *HandoverWriter) Close() error { return w.file.Close() }

// ReadHandover reads what was handed over of a task; an empty one if nothing was. It is never nil.
func ReadHandover(folder string) (*Handover, error) {
	file, err := os.Open(filepath.Join(folder, handoverFile))
	if errors.Is(err, fs.ErrNotExist) {
		return &Handover{}, nil
	}
	if err != nil {
		return &Handover{}, fmt.Errorf("read handover: %w", err)
	}
	defer file.Close()
	var errs [rowSlot + 1]error
	var samples [sampleSlots]*procstats.Sample
	for slot := range samples {
		samples[slot], errs[slot] = readSample(file, slot)
	}
	h := &Handover{Last: samples[0], Before: samples[1]}
	if h.Last == nil || h.Before != nil && h.Before.Mono > h.Last.Mono {
		h.Last, h.Before = h.Before, h.Last
	}
	h.Rows, errs[rowSlot] = readSample(file, rowSlot)
	var text []byte
	if text, errs[commandSlot] = readSlot(file, commandSlot); text != nil {
		h.Counted = &record.Handed{Commands: &record.Commands{}}
		errs[commandSlot] = json.Unmarshal(text, h.Counted)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return h, fmt.Errorf("read handover: %w", err)
	}
	return h, nil
}

// readSample returns the sample in a slot; nil if there is none.
func readSample(file *os.File, slot int) (*procstats.Sample, error) {
	content, err := readSlot(file, slot)
	if content == nil {
		return nil, err
	}
	return wire.Unpack(content)
}

var errTorn = errors.New("incomplete")

// readSlot returns the content of a slot; nil if there is none. It tries again while the slot is being written, which
// takes microseconds.
func readSlot(file *os.File, slot int) (content []byte, err error) {
	const tries = 3
	for range tries {
		if content, err = trySlot(file, int64(slot)*slotSize); !errors.Is(err, errTorn) {
			break
		}
	}
	return content, err
}

func trySlot(file *os.File, at int64) ([]byte, error) {
	var head [headerSize]byte
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if n, _ := file.ReadAt(head[:], at); n < headerSize || binary.LittleEndian.Uint32(head[:]) != handoverVersion {
		return nil, nil // it was never written, or by a build that writes it differently
	}
	size := int64(binary.LittleEndian.Uint32(head[4:]))
	if size > info.Size()-at-headerSize {
		return nil, errTorn
	}
	content := make([]byte, size)
	if _, err := file.ReadAt(content, at+headerSize); err != nil {
		return nil, err
	}
	if crc32.ChecksumIEEE(content) != binary.LittleEndian.Uint32(head[8:]) {
		return nil, errTorn
	}
	return content, nil
}
