// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
)

// A record is a JSON object whose last member is its checksum.
const (
	checksumBegin = `"Checksum":"`
	checksumEnd   = `"}`
	checksumSize  = len(checksumBegin) + 8 + len(checksumEnd)
)

// castagnoli is made where it is used: every start of the program, also those of executors, would pay for it.
//
//nolint:gochecknoglobals // constant
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// checksum returns the checksum of a value and of its key.
func checksum(bucket, key string, text []byte) uint32 {
	sum := crc32.Checksum([]byte(bucket+"\x00"+key+"\x00"), castagnoli())
	return crc32.Update(sum, castagnoli(), text)
}

// withChecksum returns a JSON object with its checksum.
func withChecksum(bucket, key string, text []byte) []byte {
	body := append(make([]byte, 0, len(text)+checksumSize), text[:len(text)-1]...)
	if len(text) > len("{}") {
		body = append(body, ',')
	}
	return fmt.Appendf(body, "%s%08x%s", checksumBegin, checksum(bucket, key, body), checksumEnd)
}

// verifyChecksum compares a record with its checksum.
func verifyChecksum(bucket, key string, value []byte) error {
	at := len(value) - checksumSize
	if at < 1 {
		return errors.New("no checksum")
	}
	found := string(value[at:])
	if want := fmt.Sprintf("%s%08x%s", checksumBegin, checksum(bucket, key, value[:at]), checksumEnd); found != want {
		return fmt.Errorf("checksum %s, want %s", found, want)
	}
	return nil
}
