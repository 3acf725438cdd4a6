// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxNumber is the highest number of a file that is taken for one of a series. No series gets there by itself; a
// file that the task made must not make the next number overflow.
const maxNumber = 1 << 53

// ErrInvalid says that options make no sense.
var ErrInvalid = errors.New("invalid log options")

// checkPrefix refuses what cannot be the beginning of a file name.
func checkPrefix(prefix string) error {
	if prefix == "" || strings.ContainsAny(prefix, "/\x00") {
		return fmt.Errorf("invalid prefix %q of a file name: %w", prefix, ErrInvalid)
	}
	return nil
}

// fileName returns the name of a file of a series.
func fileName(stem string, number int64) string { return stem + "." + strconv.FormatInt(number, 10) }

// fileNumber returns the number in the name of a file of a series; ok is false for all other names, among them
// numbers that are not written as fileName writes them.
func fileNumber(stem, name string) (number int64, ok bool) {
	digits, ok := strings.CutPrefix(name, stem+".")
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || number < 0 || number > maxNumber || strconv.FormatInt(number, 10) != digits {
		return 0, false
	}
	return number, true
}
