// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package node

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/internal/agent/job"
)

// Meets reports whether a node with names meets a constraint for a group of count allocations.
func Meets(c *job.Constraint, count int, names map[string]string) bool {
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
	value = Interpolate(target, names)
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
		have := listOf(left)
		return !slices.ContainsFunc(listOf(right), func(wanted string) bool { return !slices.Contains(have, wanted) })
	case "set_contains_any":
		have := listOf(left)
		return slices.ContainsFunc(listOf(right), func(wanted string) bool { return slices.Contains(have, wanted) })
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

var interpolation = regexp.MustCompile(`\$\{[^}]*\}`)

// Interpolate replaces ${NAME} in a text that is not an expression. Unknown names stay as they are.
func Interpolate(text string, layers ...map[string]string) string {
	return interpolation.ReplaceAllStringFunc(text, func(found string) string {
		for _, layer := range layers {
			if value, ok := layer[strings.TrimSpace(found[len("${"):len(found)-len("}")])]; ok {
				return value
			}
		}
		return found
	})
}
