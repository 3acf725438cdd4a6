// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// palette colours text, or leaves it as it is where it is off.
type palette struct{ on bool }

// paletteFor decides on colour for w: --color, NO_COLOR (no-color.org), and whether w is a terminal.
func paletteFor(cmd *cobra.Command, w io.Writer) palette {
	switch flag := cmd.Flag("color"); {
	case flag == nil:
	case flag.Value.String() == "always":
		return palette{on: true}
	case flag.Value.String() == "never":
		return palette{}
	}
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return palette{}
	}
	return palette{on: isTerminal(w)}
}

func (p palette) wrap(code, text string) string {
	if !p.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p palette) bold(text string) string   { return p.wrap("1", text) }
func (p palette) faint(text string) string  { return p.wrap("2", text) }
func (p palette) red(text string) string    { return p.wrap("31", text) }
func (p palette) green(text string) string  { return p.wrap("32", text) }
func (p palette) yellow(text string) string { return p.wrap("33", text) }

// isTerminal reports whether w is a terminal of ours.
func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// terminalSize returns columns and lines of the terminal w; zeros where it is none.
func terminalSize(w any) (columns, lines int) {
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
