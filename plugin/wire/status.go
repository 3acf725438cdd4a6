// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/structs"
)

// ByText returns the errors that hosts recognise by their text.
func ByText() []error {
	return []error{
		driver.ErrTaskNotFound, driver.ErrStatsNotImplemented, driver.ErrTaskRunning, driver.ErrTaskNotRunning,
		driver.ErrTaskExists, driver.ErrCommandNotFound, driver.ErrNotExecutable,
	}
}

// Status returns the status that a driver's error goes over the wire as; nil of nil. What a host looks for by its
// text is of code Unknown, as every plain error is.
func Status(err error) error {
	// Errors of an ended context are marked, too: hosts know of it by the mark alone.
	recoverable, marked := driver.IsRecoverable(err)
	switch {
	case err == nil:
		return nil
	case marked:
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, text(err.Error()))
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, text(err.Error()))
	}
	for _, sentinel := range ByText() {
		if errors.Is(err, sentinel) {
			return status.Error(codes.Unknown, text(err.Error()))
		}
	}
	if marked {
		s := status.New(codes.FailedPrecondition, text(err.Error()))
		if detailed, err := s.WithDetails(&structs.RecoverableError{Recoverable: recoverable}); err == nil {
			s = detailed // a single bool can always be encoded
		}
		return s.Err()
	}
	code := codes.Unknown
	switch {
	case errors.Is(err, driver.ErrUnavailable):
		code = codes.Unavailable
	case errors.Is(err, driver.ErrInvalid):
		code = codes.InvalidArgument
	case errors.Is(err, driver.ErrNotSupported):
		code = codes.Unimplemented
	}
	return status.Error(code, text(err.Error()))
}

// text makes a string that protobuf carries: its strings are UTF-8, while a process's name or a file's path may be
// any bytes.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func texts(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	valid := make(map[string]string, len(m))
	for key, value := range m {
		valid[text(key)] = text(value)
	}
	return valid
}
