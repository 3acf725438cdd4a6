// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes of commands that run no other command.
const (
	CodeError = 1
	exitUsage = 2
	// CodeLauncherError is what commands that run another command exit with for any fault of their own, so that it
	// is not taken for that command's code.
	CodeLauncherError = 125
)

// usageError says that tacho was called wrongly, and how it is called rightly.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func Usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// exitError ends the process with a code of its own. Where err is nil nothing is said.
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

// ExitWith returns the error that makes Execute return code, having told err where there is one.
func ExitWith(code int, err error) error { return &exitError{code, err} }

// launches is the annotation of commands that run another command.
const launches = "launches"

// Launcher marks a command as one that runs another command: its own faults are exitOwnFault.
func Launcher(cmd *cobra.Command) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[launches] = ""
	return cmd
}

// Report tells a fault in one line and returns the exit code.
func Report(stderr io.Writer, executed *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	code := CodeError
	if wrong := (*usageError)(nil); errors.As(err, &wrong) {
		code = exitUsage
	}
	if _, marked := executed.Annotations[launches]; marked {
		code = CodeLauncherError
	}
	if own := (*exitError)(nil); errors.As(err, &own) {
		code = own.code
		if own.err == nil {
			return code
		}
	}
	PrintError(stderr, err)
	return code
}

// PrintError writes one line about err. There is nowhere to tell that stderr does not take it.
func PrintError(stderr io.Writer, err error) {
	_, _ = fmt.Fprintf(stderr, "tacho: %s\n", OneLine(err.Error()))
}

// WrongFlag adds the remedy to a fault that the flag parser found.
func WrongFlag(cmd *cobra.Command, err error) error {
	return Usagef("%w (see %s --help)", err, cmd.CommandPath())
}
