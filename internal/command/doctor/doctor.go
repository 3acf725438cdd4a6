// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Command returns tacho doctor.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what can be measured here, and how to enable the rest",
		Long: `Try every source of measurements on this machine as this user, and print which work, which do not and why,
and how to enable them. It creates the cgroup that a task would get, and removes it.

The exit code is 1 if nothing can be measured.`,
		Example: `  tacho doctor
  sudo tacho doctor
  tacho doctor --format json | jq '.checks[] | select(.state != "works")'`,
		Args:    cli.Arguments(),
		GroupID: cli.GroupHost,
	}
	format := cli.AddFormat(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := Examine(Host{FS: kernel.HostFS(), Root: "/"})
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if format.String() == "json" {
			err = cli.PrintJSON(out, r)
		} else {
			_, err = io.WriteString(out, doctorText(cli.PaletteFor(cmd, out), r))
		}
		if err == nil && !r.Usable() {
			return errors.New("nothing can be measured on this machine")
		}
		return err
	}
	return cmd
}

func doctorText(p cli.Palette, r *Report) string {
	var text strings.Builder
	for _, c := range r.Checks {
		for _, line := range [][3]string{
			{fmt.Sprintf("%s %s: ", mark(p, c.State), p.Bold(c.Name)), "    ", c.Found},
			{"    without it: ", "      ", c.Costs},
			{"    to enable:  ", "      ", c.Enable},
		} {
			if line[2] != "" {
				text.WriteString(cli.Hang(p, line[0], line[1], cli.Printable(line[2]), nil))
			}
		}
	}
	text.WriteString("\n" + p.Bold("Sources") + "\n")
	t := cli.Table{Indent: "  ", Right: []int{2}}
	for _, s := range r.Sources {
		t.Add(mark(p, s.State()), cli.Plain(strings.TrimSpace(s.Name+" "+s.Version)),
			cli.Plain(fmt.Sprintf("%d of %d", s.Readable, s.Measurements)), cli.Plain(cli.Printable(s.Reason)))
	}
	text.WriteString(t.Render(p))
	text.WriteString(absentText(p, r))
	fmt.Fprintf(&text, "\n%d measurements are available; tacho explain NAME explains one.\n", len(r.Readable))
	return text.String()
}

// absentText lists the absent measurements with the reasons, except those of a source that does not work at all: its
// reason is in the list of sources.
func absentText(p cli.Palette, r *Report) string {
	t := cli.Table{Indent: "  "}
	for _, name := range cli.TableOrder(r.Absent) {
		if m, _ := procstats.LookupName(name); !hasReason(r.Sources, m.Source) {
			t.Add(cli.Plain(name), cli.Painted(cli.Printable(r.Absent[name]), p.Faint))
		}
	}
	if t.Empty() {
		return ""
	}
	return "\n" + p.Bold("Not available") + "\n" + t.Render(p)
}

// hasReason reports whether a source does not work at all and has a reason of its own.
func hasReason(sources []Source, id procstats.SourceID) bool {
	return slices.ContainsFunc(sources, func(s Source) bool {
		return s.Name == id.String() && s.State() == Missing && s.Reason != ""
	})
}

// mark returns the sign of a state and its colour.
func mark(p cli.Palette, state State) cli.Cell {
	switch state {
	case Works:
		return cli.Painted("ok", p.Green)
	case Partly:
		return cli.Painted("--", p.Yellow)
	case Missing:
	}
	return cli.Painted("no", p.Red)
}
