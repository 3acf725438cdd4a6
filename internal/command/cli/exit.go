// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

const (
	codeError = 1
	codeUsage = 2
	// codeLauncher is for any error of tacho itself in a command that runs another command, so that it is not taken
	// for that command's code.
	codeLauncher = 125
)

// ErrReported makes Report return the code of an error without printing it.
var ErrReported = errors.New("already reported")

// usageError is an error of whoever called tacho: it has an exit code of its own.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// Usagef returns an error of wrong usage, formatted like fmt.Errorf.
func Usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// exitError has an exit code of its own. If err is nil, nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// ExitWith returns an error that makes Report return code and print err, unless err is nil.
func ExitWith(code int, err error) error { return &exitError{code, err} }

// launches is the annotation of commands that run another command.
const launches = "launches"

// Launcher marks a command as one that runs another command: the code of its own errors is 125.
func Launcher(cmd *cobra.Command) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[launches] = ""
	return cmd
}

// Report prints the error of the executed command in one line and returns the exit code.
func Report(stderr io.Writer, executed *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	code := codeError
	if _, ok := errors.AsType[*usageError](err); ok {
		code = codeUsage
	}
	if _, ok := executed.Annotations[launches]; ok {
		code = codeLauncher
	}
	if own, ok := errors.AsType[*exitError](err); ok {
		code = own.code
		if own.err == nil {
			return code
		}
	}
	if !errors.Is(err, ErrReported) {
		PrintError(stderr, err)
	}
	return code
}

// PrintError prints err in one line. A failed write is ignored: there is no other place to report it.
func PrintError(stderr io.Writer, err error) {
	_, _ = fmt.Fprintf(stderr, "tacho: %s\n", OneLine(err.Error()))
}
