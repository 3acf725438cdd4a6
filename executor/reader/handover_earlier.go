// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package reader

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	googleproto "google.golang.org/protobuf/proto"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
)

// readEarlierHandover reads the three files in which the build before has handed a task over, so that its counters continue
// over the upgrade; nil if there are none.
func readEarlierHandover(folder string) (*Handover, error) {
	last, err := readEarlier(filepath.Join(folder, "samples"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing was handed over
	}
	if err != nil {
		return nil, fmt.Errorf("read earlier handover: %w", err)
	}
	h := &Handover{Last: wire.ToSample(last.GetLast())}
	// Damaged rows or commands are missing; the samples count all the same.
	rows, err := readEarlier(filepath.Join(folder, "rows"))
	if newest := cmp.Or(rows.GetRows(), last.GetRows()); err == nil && newest != nil {
		h.Rows = wire.ToSample(newest)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "commands.json")); err == nil {
		counted := &record.Handed{Commands: &record.Commands{}}
		if json.Unmarshal(text, counted) == nil {
			h.Counted = counted
		}
	}
	return h, nil
}

// readEarlier reads a message behind its size and checksum, of 4 bytes each.
func readEarlier(path string) (*proto.Handover, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	const head = 8
	if len(text) < head {
		return nil, errTorn
	}
	size, content := binary.LittleEndian.Uint32(text), text[head:]
	if uint64(size) > uint64(len(content)) || crc32.ChecksumIEEE(content[:size]) != binary.LittleEndian.Uint32(text[4:]) {
		return nil, errTorn
	}
	var m proto.Handover
	return &m, googleproto.Unmarshal(content[:size], &m)
}
