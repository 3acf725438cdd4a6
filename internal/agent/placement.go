// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// place divides what a job lacks into the vacancies that this node can fill now, which get their ports and cores, and those that it cannot.
// An allocation of an earlier version goes on if nothing can take its place: it is not surplus then.
func (a *Agent) place(j *job.Job, surplus []*alloc, missing []vacancy) (stop []*alloc, fill []vacancy, unplaced map[string]*snapshot.Unplaced) {
	unplaced = make(map[string]*snapshot.Unplaced)
	names := a.constraintNames()
	stop = slices.Clone(surplus)
	reject := func(v vacancy, filtered []*job.Constraint, exhausted string) {
		u := unplaced[v.group.Name]
		if u == nil {
			u = &snapshot.Unplaced{}
			unplaced[v.group.Name] = u
		}
		u.Add(v.index, filtered, exhausted)
		stop = slices.DeleteFunc(stop, func(l *alloc) bool { return l.takesPlaceOf(v) })
	}
	for _, v := range missing {
		if filtered := unmet(j, v.group, v.index+1, names); len(filtered) > 0 {
			reject(v, filtered, "")
		} else {
			fill = append(fill, v)
		}
	}
	for { // an allocation that goes on keeps its ports and cores, which others cannot have then
		rest, kept := a.reservations(j.ID, stop), len(stop)
		var fits []vacancy
		for _, v := range fill {
			if err := rest.take(&v); err != nil {
				reject(v, nil, err.Error())
			} else {
				fits = append(fits, v)
			}
		}
		if fill = fits; len(stop) == kept {
			return stop, fill, unplaced
		}
	}
}

// takesPlaceOf reports whether an allocation, of whatever version, is the one that a vacancy would replace.
func (a *alloc) takesPlaceOf(v vacancy) bool {
	return a.group.Name == v.group.Name && a.persisted.Index == v.index && !a.snapshot().ClientStatus.Ended()
}

// constraintNames are what constraints can refer to.
func (a *Agent) constraintNames() map[string]string {
	names := a.node.Names()
	if d := a.driver.About(); d.Detected {
		names["attr.driver."+d.Name] = "1"
	}
	return names
}

// unmet are the constraints of a group that this node does not meet for so many of its allocations.
func unmet(j *job.Job, g *job.Group, count int, names map[string]string) (filtered []*job.Constraint) {
	all := slices.Concat(j.Constraints, g.Constraints)
	for _, t := range g.Tasks {
		all = append(all, t.Constraints...)
	}
	return slices.DeleteFunc(all, func(c *job.Constraint) bool { return meets(c, count, names) })
}

// placementNotes say in sentences which constraints this node does not meet.
func (a *Agent) placementNotes(j *job.Job) []string {
	var notes []string
	names := a.constraintNames()
	for _, g := range j.Groups {
		if g.Count == 0 {
			continue
		}
		for _, c := range unmet(j, g, g.Count, names) {
			notes = append(notes, fmt.Sprintf("placement failure: %s:%d: constraint %q filtered 1 node", c.Range.Filename, c.Range.Start.Line, c.String()))
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

// meets reports whether a node with names meets a constraint for a group of count allocations.
func meets(c *job.Constraint, count int, names map[string]string) bool {
	left, leftKnown := resolve(c.LTarget, names)
	right, rightKnown := resolve(c.RTarget, names)
	switch c.Operand {
	case job.DistinctHosts:
		return count <= 1
	case job.DistinctProperty:
		allowed, err := strconv.Atoi(cmp.Or(c.RTarget, "1"))
		return leftKnown && err == nil && count <= allowed
	case job.IsSet:
		return leftKnown
	case job.IsNotSet:
		return !leftKnown
	case "!=":
		return !leftKnown && !rightKnown || leftKnown != rightKnown || left != right
	}
	return leftKnown && rightKnown && compare(left, c.Operand, right)
}

// resolve is a target of a constraint; known is false if it names what the node has not.
func resolve(target string, names map[string]string) (value string, known bool) {
	value = interpolate(target, names)
	return value, !strings.Contains(value, "${")
}

func compare(left, operand, right string) bool {
	switch operand {
	case "=":
		return left == right
	case "regexp":
		re, err := regexp.Compile(right)
		return err == nil && re.MatchString(left)
	case "version", "semver":
		return versionMeets(left, right)
	case "set_contains":
		return !slices.ContainsFunc(listOf(right), func(wanted string) bool { return !slices.Contains(listOf(left), wanted) })
	case "set_contains_any":
		return slices.ContainsFunc(listOf(right), func(wanted string) bool { return slices.Contains(listOf(left), wanted) })
	}
	order := cmp.Compare(left, right)
	a, errA := strconv.ParseFloat(left, 64)
	b, errB := strconv.ParseFloat(right, 64)
	if errA == nil && errB == nil {
		order = cmp.Compare(a, b)
	}
	return ordered(order, operand)
}

func ordered(order int, operand string) bool {
	switch operand {
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case "!=":
		return order != 0
	}
	return order == 0
}

func listOf(text string) []string {
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// versionMeets reports whether a version is within all of some bounds, such as ">= 1.2, < 2" or "~> 1.4".
func versionMeets(version, bounds string) bool {
	have, ok := numbers(version)
	if !ok {
		return false
	}
	for _, bound := range listOf(bounds) {
		operand := bound[:len(bound)-len(strings.TrimLeft(bound, "<>=!~"))]
		want, ok := numbers(strings.TrimSpace(bound[len(operand):]))
		if !ok {
			return false
		}
		if operand == "~>" { // the last number that is given may grow, and none before it
			fixed := max(1, len(want)-1)
			if slices.Compare(padded(have, fixed)[:fixed], want[:fixed]) != 0 {
				return false
			}
			operand = ">="
		}
		length := max(len(have), len(want))
		if !ordered(slices.Compare(padded(have, length), padded(want, length)), operand) {
			return false
		}
	}
	return true
}

// numbers are those of a version; what follows them is left out.
func numbers(version string) ([]int, bool) {
	version, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(version), "v"), "-")
	version, _, _ = strings.Cut(version, "+")
	var all []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		all = append(all, n)
	}
	return all, true
}

func padded(numbers []int, length int) []int {
	return append(slices.Clone(numbers), make([]int, max(0, length-len(numbers)))...)
}

// portVariables are what a task is told of its group's ports.
func (s *start) portVariables() map[string]string {
	env := make(map[string]string)
	ip := s.node.Attributes["unique.network.ip-address"]
	for _, p := range s.group.Ports {
		host := s.ports[p.Label]
		port := host
		if p.To > 0 {
			port = p.To
		}
		values := map[string]string{
			"PORT": strconv.Itoa(port), "HOST_PORT": strconv.Itoa(host), "IP": ip, "HOST_IP": ip,
			"ADDR": net.JoinHostPort(ip, strconv.Itoa(host)), "HOST_ADDR": net.JoinHostPort(ip, strconv.Itoa(host)),
		}
		for _, label := range slices.Compact([]string{p.Label, strings.Map(variableRune, p.Label)}) {
			for kind, value := range values {
				env["NOMAD_"+kind+"_"+label] = value
			}
		}
	}
	return env
}
