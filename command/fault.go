// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes of commands that run no other command.
const (
	exitFault = 1
	exitUsage = 2
	// exitOwnFault is what commands that run another command exit with for any fault of their own, so that it
	// is not taken for that command's code.
	exitOwnFault = 125
)

// usageError says that tacho was called wrongly, and how it is called rightly.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

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

// exitWith returns the error that makes Execute return code, having told err where there is one.
func exitWith(code int, err error) error { return &exitError{code, err} }

// launches is the annotation of commands that run another command.
const launches = "launches"

// launcher marks a command as one that runs another command: its own faults are exitOwnFault.
func launcher(cmd *cobra.Command) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[launches] = ""
	return cmd
}

// report tells a fault in one line and returns the exit code.
func report(stderr io.Writer, executed *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	code := exitFault
	if wrong := (*usageError)(nil); errors.As(err, &wrong) {
		code = exitUsage
	}
	if _, marked := executed.Annotations[launches]; marked {
		code = exitOwnFault
	}
	if own := (*exitError)(nil); errors.As(err, &own) {
		code = own.code
		if own.err == nil {
			return code
		}
	}
	complain(stderr, err)
	return code
}

// complain writes one line about err. There is nowhere to tell that stderr does not take it.
func complain(stderr io.Writer, err error) {
	_, _ = fmt.Fprintf(stderr, "tacho: %s\n", oneLine(err.Error()))
}

// oneLine joins the lines of a text and takes out what a terminal would obey.
func oneLine(text string) string {
	return printable(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}

// wrongFlag adds the remedy to a fault that the flag parser found.
func wrongFlag(cmd *cobra.Command, err error) error {
	return usagef("%w (see %s --help)", err, cmd.CommandPath())
}

// arguments checks the number of arguments; names say what they are, in the help's words.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch empty := slices.Index(args, ""); {
		case empty >= 0 && empty < len(names):
			return usagef("%s is empty (see %s --help)", names[empty], cmd.CommandPath())
		case len(args) == len(names):
			return nil
		case len(args) > len(names):
			return usagef("one argument too many: %q (see %s --help)", args[len(names)], cmd.CommandPath())
		}
		return usagef("%s is missing (see %s --help)", names[len(args)], cmd.CommandPath())
	}
}

// orList reads "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
