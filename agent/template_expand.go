// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/tachograph/tacho/agent/job"
)

// Bounds on a template. Whoever may run a job may do so as the agent's user, but a mistake in a job file must not end
// the agent.
const (
	// maxRendered bounds what is written, in bytes.
	maxRendered = 16 << 20
	// maxValues bounds what functions return, all together, in bytes.
	maxValues = 64 << 20
	// maxSteps bounds how often bodies of ranges and templates are executed, each times its length.
	maxSteps = 2_000_000
	// maxDepth bounds templates that execute templates, and what stands in ranges and conditions within each other.
	maxDepth = 200
	// maxExpand bounds the time.
	maxExpand = 10 * time.Second
)

// expand executes a template. Its functions are those that need nothing but this machine.
func expand(t *job.Template, env map[string]string) ([]byte, error) {
	e := &expansion{began: time.Now()}
	parsed, err := template.New(t.Destination).Delims(t.LeftDelim, t.RightDelim).Option("missingkey=error").
		Funcs(e.functions(env)).Parse(t.Data)
	if err != nil {
		return nil, err
	}
	for _, part := range parsed.Templates() {
		if err := e.bound(part); err != nil {
			return nil, err
		}
	}
	w := &boundedBuffer{left: maxRendered}
	// Not known while the text was parsed, so that it cannot call them.
	if err := parsed.Funcs(e.counters()).Execute(w, nil); err != nil {
		return nil, err
	}
	return w.Bytes(), nil
}

// boundedBuffer refuses what a template that runs wild writes.
type boundedBuffer struct {
	bytes.Buffer
	left int
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, fmt.Errorf("more than %d bytes", maxRendered)
	}
	return b.Buffer.Write(p)
}

// expansion counts what one execution of a template costs.
type expansion struct {
	began                time.Time
	steps, values, depth int
}

var errTooLong = errors.New("the template takes too long")

// counters are what bound puts into a template. They write nothing.
func (e *expansion) counters() template.FuncMap {
	return template.FuncMap{
		"step": func(length int) (string, error) {
			if e.steps += 1 + length; e.steps > maxSteps || time.Since(e.began) > maxExpand {
				return "", errTooLong
			}
			return "", nil
		},
		"enter": func() (string, error) {
			if e.depth++; e.depth > maxDepth {
				return "", errors.New("templates execute each other without end")
			}
			return "", nil
		},
		"leave": func() string { e.depth--; return "" },
	}
}

// bound has a template count how often each of its parts is executed: package text/template itself stops at nothing.
func (e *expansion) bound(t *template.Template) error {
	if t.Tree == nil || t.Root == nil {
		return nil
	}
	if err := e.boundList(t.Root, 0, true); err != nil {
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

// boundList bounds what is in a list, and counts the list itself where it can be executed more than once.
func (e *expansion) boundList(list *parse.ListNode, depth int, counted bool) error {
	if list == nil {
		return nil
	}
	if depth > maxDepth {
		return fmt.Errorf("more than %d actions within each other", maxDepth)
	}
	length := 0
	for _, node := range list.Nodes {
		length += len(node.String())
		var branch *parse.BranchNode
		repeated := false
		switch n := node.(type) {
		case *parse.IfNode:
			branch = &n.BranchNode
		case *parse.WithNode:
			branch = &n.BranchNode
		case *parse.RangeNode:
			branch, repeated = &n.BranchNode, true
		default:
			continue
		}
		if err := errors.Join(e.boundList(branch.List, depth+1, repeated), e.boundList(branch.ElseList, depth+1, false)); err != nil {
			return err
		}
	}
	if !counted {
		return nil
	}
	step, err := template.New("").Funcs(e.counters()).Parse(fmt.Sprintf("{{ step %d }}", length/16))
	if err != nil {
		return err
	}
	list.Nodes = append([]parse.Node{step.Root.Nodes[0]}, list.Nodes...)
	return nil
}

// functions are what templates call, with those of package text/template that make texts: each says first how large
// its result can be at most.
func (e *expansion) functions(env map[string]string) template.FuncMap {
	return template.FuncMap{
		"env": func(name string) string { return env[name] },
		"envOrDefault": func(name, otherwise string) string {
			if value := env[name]; value != "" {
				return value
			}
			return otherwise
		},
		"toLower": func(text string) (string, error) {
			return e.text(2*len(text), func() string { return strings.ToLower(text) })
		},
		"toUpper": func(text string) (string, error) {
			return e.text(2*len(text), func() string { return strings.ToUpper(text) })
		},
		"trimSpace": strings.TrimSpace,
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
		"contains": func(part, text string) bool { return strings.Contains(text, part) },
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
	return nil
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
