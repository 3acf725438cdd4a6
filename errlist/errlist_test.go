// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package errlist

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"

	"github.com/hashicorp/go-multierror"
)

func TestEach(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("read: %w", err) }
	for want, err := range map[string]error{
		"read: EOF":                            io.EOF,
		"read: EOF\nread: file does not exist": Join(io.EOF, fs.ErrNotExist),
		// What was said of a list is said once.
		"read: stop: EOF\nfile does not exist": fmt.Errorf("stop: %w", Join(io.EOF, fs.ErrNotExist)),
	} {
		if got := Each(err, wrap); got.Error() != want || !errors.Is(got, io.EOF) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := Each(nil, wrap); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestJoin(t *testing.T) {
	if err := Join(nil, nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	if err := Join(nil, io.EOF); err == nil || err.Error() != "EOF" {
		t.Errorf("one error became %v", err)
	}
	err := Join(io.EOF, Join(fs.ErrNotExist, io.ErrClosedPipe))
	list, ok := errors.AsType[*multierror.Error](err)
	if !ok || len(list.Errors) != 3 {
		t.Fatalf("%v is no list of three", err)
	}
	if want := "EOF\nfile does not exist\nio: read/write on closed pipe"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("a cause is not found")
	}
}
