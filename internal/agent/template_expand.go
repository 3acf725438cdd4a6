// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/tachograph/tacho/internal/agent/job"
)

// Limits on templates. Whoever may run a job may do so as the agent's user, but a mistake in a job file must not end
// the agent, or take its processor: the execution of a template cannot be stopped from outside.
const (
	// maxRendered bounds what a template writes, in bytes.
	maxRendered = 8 << 20
	// maxValues bounds what functions return, all together, in bytes.
	maxValues = 16 << 20
	// maxSteps bounds what the templates of a task, or of a job that is checked, may do; a step takes ten nanoseconds or so.
	maxSteps = 20_000_000
	// maxNested bounds templates that execute templates, and what stands in ranges and conditions within each other.
	maxNested = 100
	// maxActive bounds the text of a template that has actions, and maxActions these: parsed they take a hundred times
	// the memory. A text without actions may be as long as a job file.
	maxActive  = 256 << 10
	maxActions = 5000
)

// What a template does, in steps.
const (
	stepsOfAction    = 50
	stepsOfIteration = 100
	stepsOfCall      = 300
	stepsOfWrite     = 10
	bytesOfStep      = 32 // that are copied or compared
)

// expand executes a template. Its functions are those that need nothing but this machine. steps is what it may do, and
// what is left of it afterwards.
func expand(t *job.Template, env map[string]string, steps *int) ([]byte, error) {
	if n := strings.Count(t.Data, t.LeftDelim); n > maxActions || n > 0 && len(t.Data) > maxActive {
		return nil, fmt.Errorf("%d actions in %d bytes; a template can have %d, and %d bytes if there are any", n, len(t.Data), maxActions, maxActive)
	}
	e := &expansion{steps: steps}
	parsed, err := template.New(t.Destination).Delims(t.LeftDelim, t.RightDelim).Option("missingkey=error").
		Funcs(e.functions(env)).Parse(t.Data)
	if err != nil {
		return nil, parseError(err)
	}
	for _, part := range parsed.Templates() {
		if err := e.bound(part); err != nil {
			return nil, err
		}
	}
	w := &boundedBuffer{expansion: e}
	// Not known while the text was parsed, so that it cannot call them.
	if err := parsed.Funcs(e.counters()).Execute(w, nil); err != nil {
		return nil, err
	}
	return w.Bytes(), nil
}

// notDefined matches what text/template says of a function that there is not.
var notDefined = regexp.MustCompile(`function "(\w+)" not defined`)

// clusterFunctions are those of Nomad's templates that ask Consul, Vault or Nomad, or read files of the client.
//
//nolint:gochecknoglobals // a constant list
var clusterFunctions = []string{
	"caLeaf", "caRoots", "connect", "datacenters", "exportedServices", "file", "key", "keyExists", "keyOrDefault", "ls", "node", "nodes",
	"nomadService", "nomadServices", "nomadVar", "nomadVarExists", "nomadVarList", "nomadVarListSafe", "peerings", "pkiCert", "plugin",
	"safeLs", "safeTree", "secret", "secrets", "service", "services", "tree", "writeToFile",
}

// parseError says of a function that only a cluster has that it is not supported here.
func parseError(err error) error {
	if found := notDefined.FindStringSubmatch(err.Error()); found != nil && slices.Contains(clusterFunctions, found[1]) {
		return errors.New(strings.Replace(err.Error(), found[0], fmt.Sprintf("function %q is not supported by the agent; run this job on a Nomad cluster", found[1]), 1))
	}
	return err
}

// boundedBuffer refuses what a template that runs wild writes.
type boundedBuffer struct {
	bytes.Buffer
	expansion *expansion
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxRendered {
		return 0, fmt.Errorf("the template writes more than %d bytes", maxRendered)
	}
	if err := b.expansion.do(stepsOfWrite + len(p)/bytesOfStep); err != nil {
		return 0, err
	}
	return b.Buffer.Write(p)
}

// expansion counts what one execution of a template takes.
type expansion struct {
	// steps are those that are left.
	steps         *int
	values, depth int
	// largest is the size of the largest text that an action can have to do with.
	largest int
}

var errTooLong = errors.New("the template takes too long: let the task do this, or write fewer and shorter loops")

// do takes steps from those that are left.
func (e *expansion) do(steps int) error {
	if *e.steps -= steps; *e.steps < 0 {
		return errTooLong
	}
	return nil
}

// counters are what bound puts into a template. They write nothing.
func (e *expansion) counters() template.FuncMap {
	return template.FuncMap{
		"step": func(actions, length int) (string, error) {
			each := stepsOfAction + e.largest/bytesOfStep
			return "", e.do(stepsOfIteration + actions*each + length/bytesOfStep)
		},
		"enter": func() (string, error) {
			if e.depth++; e.depth > maxNested {
				return "", errors.New("templates execute each other recursively")
			}
			return "", e.do(stepsOfCall)
		},
		"leave": func() string { e.depth--; return "" },
	}
}

// bound has a template count how often each of its parts is executed: package text/template itself stops at nothing.
func (e *expansion) bound(t *template.Template) error {
	if t.Tree == nil || t.Root == nil {
		return nil
	}
	if _, _, err := e.boundList(t.Root, 0, true); err != nil {
		return err
	}
	around, err := template.New("").Funcs(e.counters()).Parse("{{ enter }}{{ leave }}")
	if err != nil {
		return err
	}
	enter, leave := around.Root.Nodes[0], around.Root.Nodes[1]
	t.Root.Nodes = append(append([]parse.Node{enter}, t.Root.Nodes...), leave)
	return nil
}

// boundList bounds what is in a list, and counts the list itself if it can be executed more than once. It returns how
// many actions an execution of the list has at most that are not counted in it, and the bytes of them.
func (e *expansion) boundList(list *parse.ListNode, depth int, counted bool) (actions, length int, err error) {
	if list == nil {
		return 0, 0, nil
	}
	if depth > maxNested {
		return 0, 0, fmt.Errorf("template nested too deeply: more than %d levels", maxNested)
	}
	for _, node := range list.Nodes {
		actions++
		branch, repeated := branchOf(node)
		if branch == nil {
			length += len(node.String())
			continue
		}
		length += len(branch.Pipe.String())
		for _, inner := range []*parse.ListNode{branch.List, branch.ElseList} {
			n, size, err := e.boundList(inner, depth+1, repeated && inner == branch.List)
			if err != nil {
				return 0, 0, err
			}
			actions, length = actions+n, length+size
		}
	}
	if !counted {
		return actions, length, nil
	}
	step, err := template.New("").Funcs(e.counters()).Parse(fmt.Sprintf("{{ step %d %d }}", actions, length))
	if err != nil {
		return 0, 0, err
	}
	list.Nodes = append([]parse.Node{step.Root.Nodes[0]}, list.Nodes...)
	return 0, 0, nil
}

// branchOf is what a node executes in turn, nil if nothing; repeated says that it may do so more than once.
func branchOf(node parse.Node) (branch *parse.BranchNode, repeated bool) {
	switch n := node.(type) {
	case *parse.IfNode:
		return &n.BranchNode, false
	case *parse.WithNode:
		return &n.BranchNode, false
	case *parse.RangeNode:
		return &n.BranchNode, true
	}
	return nil, false
}

// functions are what templates call, with those of package text/template that make texts: each says first how large
// its result can be at most.
func (e *expansion) functions(env map[string]string) template.FuncMap {
	return template.FuncMap{
		"env": func(name string) string { return e.seen(env[name]) },
		"envOrDefault": func(name, otherwise string) string {
			if value := env[name]; value != "" {
				return e.seen(value)
			}
			return otherwise
		},
		"toLower": func(text string) (string, error) {
			return e.text(2*len(text), func() string { return strings.ToLower(text) })
		},
		"toUpper": func(text string) (string, error) {
			return e.text(2*len(text), func() string { return strings.ToUpper(text) })
		},
		"trimSpace": func(text string) (string, error) {
			return strings.TrimSpace(text), e.do(len(text) / bytesOfStep)
		},
		"split": func(separator, text string) ([]string, error) {
			const header = 16 // of a string, whose bytes are shared
			if err := e.spend(header * (strings.Count(text, separator) + 1)); err != nil {
				return nil, err
			}
			return strings.Split(text, separator), nil
		},
		"join": func(separator string, parts []string) (string, error) {
			return e.text(sizeOf(parts)+len(separator)*len(parts), func() string { return strings.Join(parts, separator) })
		},
		"contains": func(part, text string) (bool, error) {
			return strings.Contains(text, part), e.do(len(text) / bytesOfStep)
		},
		"replaceAll": func(from, to, text string) (string, error) {
			return e.text(len(text)+strings.Count(text, from)*len(to), func() string { return strings.ReplaceAll(text, from, to) })
		},
		"print":    e.builtin(1, func(args []any) string { return fmt.Sprint(args...) }),
		"println":  e.builtin(1, func(args []any) string { return fmt.Sprintln(args...) }),
		"html":     e.builtin(6, func(args []any) string { return template.HTMLEscaper(args...) }),
		"js":       e.builtin(7, func(args []any) string { return template.JSEscaper(args...) }),
		"urlquery": e.builtin(4, func(args []any) string { return template.URLQueryEscaper(args...) }),
		"printf": func(format string, args ...any) (string, error) {
			return e.text(formatted(format, args), func() string { return fmt.Sprintf(format, args...) })
		},
	}
}

// builtin is a function of all its arguments, of which each byte becomes a number of bytes at most.
func (e *expansion) builtin(growth int, f func([]any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		size := 0
		for _, arg := range args {
			size += growth * (1 + sizeOf(arg))
		}
		return e.text(size, func() string { return f(args) })
	}
}

// text makes a text that has a size at most.
func (e *expansion) text(size int, f func() string) (string, error) {
	if err := e.spend(size); err != nil {
		return "", err
	}
	return f(), nil
}

// spend takes a size from what functions may return.
func (e *expansion) spend(size int) error {
	if size < 0 || size > maxValues-e.values {
		return fmt.Errorf("the template's values are larger than %d bytes", maxValues)
	}
	e.values += size
	e.largest = max(e.largest, size)
	return e.do(size / bytesOfStep)
}

// seen takes notice of a text that was not made here.
func (e *expansion) seen(text string) string {
	e.largest = max(e.largest, len(text))
	return text
}

// sizeOf is how many bytes a value has in print at most.
func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []string:
		size := 2
		for _, s := range v {
			size += len(s) + 1
		}
		return size
	case int, bool:
		return 20
	}
	return 400 // the largest number has 309 digits
}

// formatted is the size that printf's result has at most: each verb can print the largest argument, each byte of it as
// an escape, and each number in the format can be a width.
func formatted(format string, args []any) int {
	largest, widths := 64, 0
	for _, arg := range args {
		largest = max(largest, 10*sizeOf(arg))
		if n, ok := arg.(int); ok {
			widths = max(widths, n, -n) // of a *
		}
	}
	widths = min(widths, maxValues) * strings.Count(format, "*")
	n := 0
	for _, c := range format {
		if c < '0' || c > '9' {
			widths, n = widths+n, 0
			continue
		}
		n = min(10*n+int(c-'0'), maxValues)
	}
	return len(format) + widths + n + largest*strings.Count(format, "%")
}
