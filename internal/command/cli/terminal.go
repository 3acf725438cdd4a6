// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// Palette is how an output shows text: it colours text, or returns it unchanged if On is false.
type Palette struct {
	On bool
	// Columns is how wide lines are at most; 0 if the output is not a terminal.
	Columns int
}

// AddColor adds --color to the root and so to all commands.
func AddColor(root *cobra.Command) {
	words := []string{"auto", "always", "never"}
	addChoiceTo(root, root.PersistentFlags(), "color", "colour text: "+OrList(words), words)
}

// PaletteFor chooses the colours and the width for output to w by --color, NO_COLOR (no-color.org), TERM and whether
// w is a terminal.
func PaletteFor(cmd *cobra.Command, w io.Writer) Palette {
	columns, _ := TerminalSize(w)
	return Palette{On: coloured(cmd, w), Columns: columns}
}

func coloured(cmd *cobra.Command, w io.Writer) bool {
	switch flag := cmd.Flag("color"); {
	case flag == nil:
	case flag.Value.String() == "always":
		return true
	case flag.Value.String() == "never":
		return false
	}
	return os.Getenv("NO_COLOR") == "" && CanDraw(w)
}

func (p Palette) wrap(code, text string) string {
	if !p.On {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold returns text in bold, ECMA-48 8.3.117.
func (p Palette) Bold(text string) string { return p.wrap("1", text) }

// Faint returns text in a decreased intensity.
func (p Palette) Faint(text string) string { return p.wrap("2", text) }

// Reverse returns text with the colours of foreground and background exchanged.
func (p Palette) Reverse(text string) string { return p.wrap("7", text) }

// Red returns text in red.
func (p Palette) Red(text string) string { return p.wrap("31", text) }

// Green returns text in green.
func (p Palette) Green(text string) string { return p.wrap("32", text) }

// Yellow returns text in yellow.
func (p Palette) Yellow(text string) string { return p.wrap("33", text) }

// IsTerminal reports whether w is a file that is a terminal.
func IsTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// CanDraw reports whether w is a terminal that follows control sequences, ECMA-48: one that TERM calls dumb does not.
func CanDraw(w any) bool { return os.Getenv("TERM") != "dumb" && IsTerminal(w) }

// TerminalSize returns the columns and lines of the terminal w; zeros if it is not a terminal.
func TerminalSize(w any) (columns, lines int) {
	file, ok := w.(*os.File)
	if !ok {
		return 0, 0
	}
	columns, lines, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, lines
}

// Variables returns how the flags of cmd are named in the environment; --help and --version are not. A flag that
// means the same for all commands has one name for all. The names of others contain their command: what is valid for
// one is invalid for another.
func Variables(cmd *cobra.Command) func(*pflag.Flag) (name string, ok bool) {
	root, path := inEnvironment(cmd.Root().Name()), inEnvironment(cmd.CommandPath())
	return func(flag *pflag.Flag) (string, bool) {
		prefix := path
		switch flag.Name {
		case "help", "version":
			return "", false
		case "addr", "ca-file", "color", "data-dir", "output-dir", "token-file":
			prefix = root
		}
		return prefix + "_" + inEnvironment(flag.Name), true
	}
}

func inEnvironment(words string) string {
	return strings.ToUpper(strings.ReplaceAll(strings.ReplaceAll(words, " ", "_"), "-", "_"))
}

// ApplyEnvironment sets the flags that are not on the command line from their variables; an empty variable counts as
// unset. It is the PersistentPreRunE of the root. No other command may have one: it would run instead.
func ApplyEnvironment(cmd *cobra.Command, _ []string) error {
	var failed error
	variable := Variables(cmd)
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		name, ok := variable(flag)
		if !ok || flag.Changed || failed != nil {
			return
		}
		value := os.Getenv(name)
		if value == "" {
			return
		}
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			reason := err.Error()
			if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
				reason = whyInvalid(invalid)
			}
			failed = Usagef("environment variable %s=%s: %s (see %s --help)", name, value, reason, cmd.CommandPath())
		}
	})
	return failed
}

// Tame returns a writer that passes text, colors and the control of lines on to a terminal, and nothing else: the
// output of a task must not set the clipboard, the title or the keys of its reader, or clear the screen. The sequences
// are those of ECMA-48 and of xterm.
func Tame(to io.Writer) io.Writer {
	return &tame{to: to, tokens: regexp.MustCompile(tokens)}
}

// TameTerminal is Tame for a terminal, and to itself for anything else.
func TameTerminal(to io.Writer) io.Writer {
	if IsTerminal(to) {
		return Tame(to)
	}
	return to
}

type tame struct {
	to     io.Writer
	tokens *regexp.Regexp
	rest   []byte // of the text until now: the beginning of a character or a sequence
}

// mostSequence bounds what is held of a sequence; a longer one does not pass.
const mostSequence = 64

// tokens matches a piece of a text: in its group what passes, text and the sequences m and K; then what is dropped:
// control sequences, strings such as the title of the window, other sequences, and single characters.
const tokens = `(?s)^(?:([\n\r\t\x08]+|[^\x00-\x1f\x7f-\x9f\x{fffd}]+|\x1b\[[ -?]{0,60}[mK])|` +
	`\x1b\[[^@-~]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\)|\x1b[^\[\]PX^_]|[^\x1b])`

// Write implements io.Writer.
func (t *tame) Write(p []byte) (int, error) {
	text, out := append(t.rest, p...), make([]byte, 0, len(p))
	for utf8.FullRune(text) {
		token := t.tokens.FindSubmatchIndex(text)
		if token == nil {
			break // the rest of the sequence is to come
		}
		// Bytes that are no UTF-8 match like this character.
		if token[2] == 0 || bytes.HasPrefix(text, []byte("\uFFFD")) {
			out = append(out, text[:token[1]]...)
		}
		text = text[token[1]:]
	}
	if last := len(text) - 1; last >= mostSequence {
		text = append(text[:mostSequence], text[last]) // the last byte may be the first of two that end it
	}
	t.rest = append([]byte(nil), text...)
	if _, err := t.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
