// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/agent/job"
)

// The range of ports that the agent chooses from.
const (
	firstPort = 20_000
	lastPort  = 32_000
)

// infeasible says why this node cannot run a group, a sentence for each of its constraints that the node does not meet.
func (a *Agent) infeasible(j *job.Job, g *job.Group) []string {
	names := a.node.Names()
	for name, d := range a.drivers.All() {
		if d.Detected {
			names["attr.driver."+name] = "1"
		}
	}
	all := slices.Concat(j.Constraints, g.Constraints)
	for _, t := range g.Tasks {
		all = append(all, t.Constraints...)
	}
	var reasons []string
	for _, c := range all {
		if !meets(c, g.Count, names) {
			reasons = append(reasons, fmt.Sprintf("%s:%d: constraint %q filtered 1 node", c.Range.Filename, c.Range.Start.Line, c.String()))
		}
	}
	return reasons
}

// placementFailures say why this node cannot run a job.
func (a *Agent) placementFailures(j *job.Job) []string {
	var reasons []string
	for _, g := range j.Groups {
		if g.Count > 0 {
			reasons = append(reasons, a.infeasible(j, g)...)
		}
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
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

// assignPorts gives each vacancy its ports. Those of allocations that are being stopped, or will be, are free.
func assignPorts(missing []vacancy, taken map[int]string) error {
	for i := range missing {
		v := &missing[i]
		v.ports = make(map[string]int, len(v.group.Ports))
		for _, p := range v.group.Ports {
			port := p.Value
			if owner, used := taken[port]; port != 0 && used {
				return fmt.Errorf("port %d (%s) of group %s is used by allocation %s", port, p.Label, v.group.Name, owner)
			}
			if port == 0 {
				if port = freePort(taken); port == 0 {
					return fmt.Errorf("port %s of group %s: all ports from %d to %d are used", p.Label, v.group.Name, firstPort, lastPort)
				}
			}
			v.ports[p.Label], taken[port] = port, "of the same job"
		}
	}
	return nil
}

// freePort is a port that no allocation has and that nothing listens on now; 0 if there is none.
func freePort(taken map[int]string) int {
	for _, offset := range rand.Perm(lastPort - firstPort + 1) {
		port := firstPort + offset
		if _, used := taken[port]; used {
			continue
		}
		if listener, err := net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil {
			_ = listener.Close()
			return port
		}
	}
	return 0
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
