// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package testkit has the helpers that the tests of all packages share.
package testkit

import "testing"

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
