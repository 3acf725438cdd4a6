// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/tachograph/tacho/executor/record"
)

// A record is a JSON object whose last member is its checksum: earlier versions of tacho read it as before, and
// records that they write have none.
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

// verifyChecksum compares a record with its checksum. Records of earlier versions have no checksum.
func verifyChecksum(bucket, key string, value []byte) error {
	at := len(value) - checksumSize
	if at < 1 || !resemblesChecksum(value[at:]) {
		return nil // of an earlier version
	}
	if !bytes.HasPrefix(value[at:], []byte(checksumBegin)) || !bytes.HasSuffix(value, []byte(checksumEnd)) {
		return errors.New("damaged checksum")
	}
	found := string(value[at+len(checksumBegin) : len(value)-len(checksumEnd)])
	if want := fmt.Sprintf("%08x", checksum(bucket, key, value[:at])); found != want {
		return fmt.Errorf("checksum %s, want %s", found, want)
	}
	return nil
}

// resemblesChecksum reports whether the end of a record is mostly a checksum, so that a damaged checksum does not
// pass as a missing one.
func resemblesChecksum(end []byte) bool {
	same := 0
	for i := range checksumBegin {
		if end[i] == checksumBegin[i] {
			same++
		}
	}
	return same > len(checksumBegin)/2
}

// checkRecord returns why a record cannot be used.
func checkRecord(bucket, key string, value []byte) error {
	if err := verifyChecksum(bucket, key, value); err != nil {
		return err
	}
	var into any
	switch bucket {
	case bucketJobs:
		into = new(Job)
	case bucketAllocs:
		into = new(Allocation)
	case bucketTasks:
		into = new(Task)
	case bucketRecords:
		into = new(record.Record)
	default: // of a later version
		return nil
	}
	return json.Unmarshal(value, into)
}
