// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package docs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// block is a fenced block of a page.
type block struct {
	kind, title string
	lines       []string
}

// command is a command of a console block, with the output that the page shows.
type command struct {
	text   string
	output []string
}

// blocks reads the fenced blocks of a page: ```KIND title=FILE.
func blocks(t *testing.T, path string) []block {
	t.Helper()
	page := testkit.Value(os.ReadFile(path))(t)
	var all []block
	var open *block
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSuffix(line, "\n")
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			kind, title, _ := strings.Cut(info, " title=")
			open = &block{kind: kind, title: title}
		case fence:
			all, open = append(all, *open), nil
		case open != nil:
			open.lines = append(open.lines, line)
		}
	}
	if open != nil {
		t.Fatalf("%s: the last block is not closed", path)
	}
	return all
}

func (b block) commands() []command {
	var all []command
	for _, line := range b.lines {
		if text, is := strings.CutPrefix(line, "$ "); is {
			all = append(all, command{text: text})
		} else if len(all) > 0 {
			last := &all[len(all)-1]
			last.output = append(last.output, line)
		}
	}
	return all
}

var (
	// number is what differs from run to run, with its sign and unit.
	number = regexp.MustCompile(`[-+<]?[0-9][-0-9,.:T]*( ?([µm]?s|h|min|%|[KMG]?i?B)(/s)?\b)?%?`)
	// varying are lines of which only the first word is the same on every machine.
	varying = regexp.MustCompile(`^ *((?:by|waited|i/o|last reading|cpu|wall) |[0-9.]+(?: [KMG]iB)? ┤).*`)
	spaces  = regexp.MustCompile(` +`)
)

// plain returns a line without what differs from run to run.
func plain(line string) string {
	if m := varying.FindStringSubmatch(line); m != nil {
		line = m[1]
	}
	return strings.TrimSpace(spaces.ReplaceAllString(number.ReplaceAllString(line, "#"), " "))
}

// steady leaves out the line of what was read and written: a command that finds everything in memory has none.
func steady(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "i/o ") })
}

// matches reports whether an output is what a page shows, where … stands for any number of lines.
func matches(want, got []string) bool {
	switch {
	case len(want) == 0:
		return len(got) == 0
	case want[0] == "…":
		for i := range len(got) + 1 {
			if matches(want[1:], got[i:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && plain(want[0]) == plain(got[0]) && matches(want[1:], got[1:])
}

func TestMatches(t *testing.T) {
	want := []string{"  wall  2.74 s", "  i/o   read at least 8 KiB", "…", "RUN  2026-11-23 00:49:23  48 MiB", "end"}
	for got, matching := range map[string]bool{
		"wall 900 ms\nRUN 2027-01-02 10:00:00 1.2 GiB\nend":            true,
		"wall 900 ms\nmore\nmore\nRUN 2027-01-02 10:00:00 7 B\nend":    true,
		"wall 900 ms\nRUN 2027-01-02 10:00:00 1.2 GiB\nend\nand more":  false,
		"wall 900 ms\nRUN 2027-01-02 10:00:00 unknown\nend":            false,
		"Wall 900 ms\nRUN 2027-01-02 10:00:00 1.2 GiB\nend":            false,
		"wall 900 ms\nRUN 2027-01-02 10:00:00 1.2 GiB\nsomething else": false,
	} {
		if matches(steady(want), steady(strings.Split(got, "\n"))) != matching {
			t.Errorf("%q: want %v", got, matching)
		}
	}
}

// tachoCommand is a command in a block that is not run, up to a comment, a pipe or a redirection.
var tachoCommand = regexp.MustCompile(`^(?:- run: )?(?:sudo )?(?:bin/)?tacho ([a-z][^#|>]*)`)

// commandsOf returns the arguments of each tacho command in a block.
func commandsOf(b block) (all [][]string) {
	for _, line := range b.lines {
		if m := tachoCommand.FindStringSubmatch(line); m != nil {
			all = append(all, words(m[1]))
		}
	}
	return all
}

// words splits a command as a shell does, as far as pages need it.
func words(text string) (all []string) {
	for _, m := range regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(text, -1) {
		all = append(all, strings.Trim(m, `'"`))
	}
	return all
}
