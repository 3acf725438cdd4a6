// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

var errSize = errors.New("must be a number of bytes such as 400M, 1.5G, 64KiB or 1048576")

// ParseSize parses a number of bytes. Units are powers of 1024 as in the kernel; K, KB and KiB are the same, in any case.
func ParseSize(text string) (int64, error) {
	number := strings.TrimRightFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	unit := strings.ToLower(strings.TrimSpace(text[len(number):]))
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || value < 0 || strings.ContainsAny(number, "eExXpP_+-") {
		return 0, errSize
	}
	shift := 0
	if unit != "" && unit != "b" {
		i := strings.IndexByte("kmgtpe", unit[0])
		if rest := unit[1:]; i < 0 || !slices.Contains([]string{"", "b", "i", "ib"}, rest) {
			return 0, errSize
		}
		shift = 10 * (i + 1)
	}
	bytes := math.Ldexp(value, shift)
	switch {
	case bytes >= math.MaxInt64:
		return 0, fmt.Errorf("too large: %w", errSize)
	case shift == 0 && bytes != math.Trunc(bytes):
		return 0, errSize
	}
	return int64(math.Round(bytes)), nil
}

// ParseShare parses a number, or a percentage: 1.5 and 150% are the same.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	switch {
	case err != nil || math.IsNaN(value) || math.IsInf(value, 0):
		return 0, errors.New("must be a number such as 0.5, or a percentage such as 50%")
	case percent:
		return value / 100, nil
	}
	return value, nil
}
