// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package testkit has the helpers that the tests of all packages share.
package testkit

import (
	"context"
	"fmt"
	"io"
	"net"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// Equal reports a value that differs from the one wanted. The format and its arguments name the value.
func Equal[T comparable](tb testing.TB, got, want T, format string, args ...any) {
	tb.Helper()
	if got != want {
		verb := "%v"
		if reflect.TypeFor[T]().Kind() == reflect.String {
			verb = "%q"
		}
		tb.Errorf("%s: "+verb+", want "+verb, fmt.Sprintf(format, args...), got, want)
	}
}

// Diff reports how a named value differs from the one wanted.
func Diff(tb testing.TB, name string, want, got any, options ...cmp.Option) {
	tb.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		tb.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// DialUnix returns what connects an http.Transport to a unix socket, whatever the address.
func DialUnix(socket string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
}
