// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

// repeatOptions are the flags for repeated runs.
type repeatOptions struct {
	runs, warmUp                       int
	input, separator, prepare, cleanup string
	names, parameters                  []string
	shell                              bool
}

// command is one of the commands of a call, and what runs before and after each of its runs.
type command struct {
	name, prepare, cleanup string
	args                   []string
}

// commandsOf returns the commands in the arguments, one for each combination of the parameters that are in it. If there
// are several, they have names.
func (o *runOptions) commandsOf(args []string) ([]command, error) {
	all := []command{{prepare: o.prepare, cleanup: o.cleanup}}
	for _, arg := range args {
		c := &all[len(all)-1]
		if arg == o.separator && o.flags.Changed("runs") {
			all = append(all, command{prepare: o.prepare, cleanup: o.cleanup})
		} else if c.args = append(c.args, arg); len(all) <= len(o.names) {
			c.name = o.names[len(all)-1]
		}
	}
	if slices.ContainsFunc(all, func(c command) bool { return len(c.args) == 0 }) {
		return nil, cli.Usagef("no command before or after %s; --separator chooses another word", o.separator)
	}
	if len(o.names) > len(all) {
		commands := procstats.Counted(len(all), "command", "commands")
		return nil, cli.Usagef("--name: given %s for %s", procstats.Counted(len(o.names), "time", "times"), commands)
	}
	for _, text := range o.parameters {
		name, list, _ := strings.Cut(text, "=")
		values, err := csv.NewReader(strings.NewReader(list)).Read()
		if err != nil || name == "" {
			return nil, cli.Usagef("--parameter %s: must be NAME=VALUE,VALUE; a value with a comma is in double quotes", text)
		}
		var next []command
		found := false
		for _, c := range all {
			variants, has := c.variants(name, values)
			next, found = append(next, variants...), found || has
		}
		if all = next; !found {
			return nil, cli.Usagef("--parameter %s: {%s} is in no command", text, name)
		}
	}
	const longest = 80
	seen := map[string]int{}
	for i := range all {
		c := &all[i]
		if c.name == "" && len(all) > 1 {
			c.name = cli.Cut(cli.CommandLine(c.args), longest)
		}
		if seen[c.name]++; seen[c.name] > 1 {
			c.name = fmt.Sprintf("%s #%d", c.name, seen[c.name])
		}
	}
	return all, nil
}

// variants returns the command with each value of a parameter; itself if it has not the parameter.
func (c command) variants(name string, values []string) (all []command, has bool) {
	for _, value := range values {
		replace := strings.NewReplacer("{"+name+"}", value).Replace
		one := command{name: replace(c.name), prepare: replace(c.prepare), cleanup: replace(c.cleanup)}
		for _, arg := range c.args {
			one.args = append(one.args, replace(arg))
		}
		if slices.Equal(one.args, c.args) && one.prepare == c.prepare && one.cleanup == c.cleanup {
			return []command{c}, false
		}
		if c.name != "" && one.name == c.name {
			one.name += " " + name + "=" + value
		}
		all = append(all, one)
	}
	return all, true
}
