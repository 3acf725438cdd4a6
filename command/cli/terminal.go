// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Palette colours text, or leaves it as it is where it is off.
type Palette struct{ On bool }

// AddColor adds --color to a command and all below it.
func AddColor(root *cobra.Command) {
	addChoiceTo(root, root.PersistentFlags(), "color", "colour text: auto, always or never", []string{"auto", "always", "never"})
}

// PaletteFor decides on colour for w: --color, NO_COLOR (no-color.org), and whether w is a terminal.
func PaletteFor(cmd *cobra.Command, w io.Writer) Palette {
	switch flag := cmd.Flag("color"); {
	case flag == nil:
	case flag.Value.String() == "always":
		return Palette{On: true}
	case flag.Value.String() == "never":
		return Palette{}
	}
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return Palette{}
	}
	return Palette{On: IsTerminal(w)}
}

func (p Palette) Wrap(code, text string) string {
	if !p.On {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p Palette) Bold(text string) string   { return p.Wrap("1", text) }
func (p Palette) Faint(text string) string  { return p.Wrap("2", text) }
func (p Palette) Red(text string) string    { return p.Wrap("31", text) }
func (p Palette) Green(text string) string  { return p.Wrap("32", text) }
func (p Palette) Yellow(text string) string { return p.Wrap("33", text) }

// IsTerminal reports whether w is a terminal of ours.
func IsTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// TerminalSize returns columns and lines of the terminal w; zeros where it is none.
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
