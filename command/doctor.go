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

	"github.com/tachograph/tacho/command/doctor"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what can be measured on this machine, what not, why, and what would enable it",
		Long: `Try every source of measurements on this machine, for this user, and say which work, which do not, why, and the command
that enables each. For a moment an empty cgroup is made, the one that a task would get.

The exit code is 0 unless nothing at all can be measured.`,
		Example: `  tacho doctor
  sudo tacho doctor
  tacho doctor --format json | jq '.checks[] | select(.state != "works")'`,
		Args:    arguments(),
		GroupID: groupHost,
	}
	format := formatFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := doctor.Examine(doctor.Host{FS: kernel.HostFS(), Root: "/"})
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if format.value == "json" {
			err = printJSON(out, r)
		} else {
			_, err = io.WriteString(out, doctorText(paletteFor(cmd, out), r))
		}
		if err == nil && !r.Usable() {
			return errors.New("nothing can be measured here")
		}
		return err
	}
	return cmd
}

func doctorText(p palette, r *doctor.Report) string {
	var text strings.Builder
	for _, c := range r.Checks {
		fmt.Fprintf(&text, "%s %s: %s\n", p.mark(c.State), p.bold(c.Name), printable(c.Found))
		if c.Costs != "" {
			fmt.Fprintf(&text, "    costs:  %s\n", printable(c.Costs))
		}
		if c.Enable != "" {
			fmt.Fprintf(&text, "    enable: %s\n", printable(c.Enable))
		}
	}
	text.WriteString("\n" + p.bold("Sources") + "\n")
	t := table{indent: "  ", right: map[int]bool{2: true}}
	for _, s := range r.Sources {
		t.add(cell{text: mark(s.State()), paint: p.ofCheck(s.State())}, cell{text: strings.TrimSpace(s.Name + " " + s.Version)},
			cell{text: fmt.Sprintf("%d of %d", s.Readable, s.Measurements)}, cell{text: printable(s.Reason)})
	}
	text.WriteString(t.render(p))
	text.WriteString(absentText(p, r))
	fmt.Fprintf(&text, "\n%d measurements can be read here; tacho explain NAME says what each means.\n", len(r.Readable))
	return text.String()
}

// absentText lists the measurements that cannot be read, with the reasons. Those of a source of which nothing works
// share the source's reason, which is told already.
func absentText(p palette, r *doctor.Report) string {
	t := table{indent: "  "}
	for _, name := range tableOrder(r.Absent) {
		if m, _ := procstats.LookupName(name); !hasReason(r.Sources, m.Source) {
			t.add(cell{text: name}, cell{text: printable(r.Absent[name]), paint: p.faint})
		}
	}
	if len(t.rows) == 0 {
		return ""
	}
	return "\n" + p.bold("Cannot be read here") + "\n" + t.render(p)
}

// hasReason reports whether nothing of a source works for a reason of its own.
func hasReason(sources []doctor.Source, id procstats.SourceID) bool {
	return slices.ContainsFunc(sources, func(s doctor.Source) bool {
		return s.Name == id.String() && s.State() == doctor.Missing && s.Reason != ""
	})
}

func mark(state doctor.State) string {
	switch state {
	case doctor.Works:
		return "ok"
	case doctor.Partly:
		return "--"
	case doctor.Missing:
	}
	return "no"
}

// mark is how well something works, in two letters.
func (p palette) mark(state doctor.State) string {
	return paint(cell{paint: p.ofCheck(state)}, mark(state))
}

func (p palette) ofCheck(state doctor.State) func(string) string {
	switch state {
	case doctor.Works:
		return p.green
	case doctor.Partly:
		return p.yellow
	case doctor.Missing:
	}
	return p.red
}
