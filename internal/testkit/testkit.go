// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package testkit has the helpers that the tests of all packages share.
package testkit

import (
	"io"
	"testing"
)

// Must ends a test if something that it needs has failed.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Value is Must for a call that returns a value: testkit.Value(os.ReadFile(name))(t).
func Value[T any](value T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		Must(tb, err)
		return value
	}
}

// NoError reports what has failed, and goes on.
func NoError(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Error(err)
	}
}

// Closing closes something at the end of the test.
func Closing(tb testing.TB, c io.Closer) {
	tb.Helper()
	tb.Cleanup(func() { NoError(tb, c.Close()) })
}
