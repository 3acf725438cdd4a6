// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dialect are words that users would have to learn, each with the plain one. Docs name the plain ones only.
func dialect() map[*regexp.Regexp]string {
	words := map[string]string{
		`strays?`:                             "orphan: an executor or cgroup without an owner",
		`carr(y|ied|ies) out`:                 "support, implement, run",
		`tak(e|en|es|ing) up|took up`:         "adopt, restore, recover, resume",
		`(is|was|be|are|were) not kept`:       "persist, store, record",
		`nobody (knows|says|asks|hears)`:      "unknown, no reason reported, orphaned",
		`somebody (asked|serves|deletes|has)`: "name who",
		`for want of`:                         "because it ran out of",
		`came and went|come and gone`:         "short-lived",
		`(comes?|goes?|went) home`:            "is reparented, returns",
		`mind:`:                               "note: or warning:",
		`told by`:                             "source in brackets: (kernel log)",
		`who has the token|strangers?`:        "trusted, untrusted caller",
		`is no (file|folder|directory|number|time|command|word|PID)`: "not a file, not a number",
		`write it behind`:              "put it after",
		`there are tacho`:              "known drivers: tacho",
		`made at`:                      "updated",
		`last (line|row|word) but one`: "second-to-last",
		`before the variable`:          "flags override environment variables",
		`never began|unbegun`:          "incomplete",
		`within each other`:            "nested",
		`bury|buried`:                  "mark exited",
		`with what is there`:           "as it is",
		`whoever started it`:           "the process that started it",
		`a fault of tacho`:             "error",
		`folders?`:                     "directory",
	}
	compiled := make(map[*regexp.Regexp]string, len(words))
	for word, plain := range words {
		compiled[regexp.MustCompile(`(?i)\b(`+word+`)\b`)] = plain
	}
	return compiled
}

// TestPlainWords keeps dialect out of whatever users read: strings of the program, templates, docs.
func TestPlainWords(t *testing.T) {
	forbidden := dialect()
	report := func(where, text string) {
		for word, plain := range forbidden {
			if found := word.FindString(text); found != "" {
				t.Errorf("%s: %q; plain words are: %s", where, found, plain)
			}
		}
	}
	for _, path := range userFacing(t) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(path) != ".go" {
			for number, line := range bytes.Split(content, []byte("\n")) {
				report(position(path, number+1), string(line))
			}
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, content, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok {
				field.Tag = nil // a key of JSON is for programs
			}
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				report(set.Position(literal.Pos()).String(), literal.Value)
			}
			return true
		})
	}
}

func position(path string, line int) string {
	return (&token.Position{Filename: path, Line: line, Column: 1}).String()
}

// userFacing lists the program's own files, its pages' templates and its docs.
func userFacing(t *testing.T) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path == ".git" || path == "e2e" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		switch filepath.Ext(path) {
		case ".go", ".html", ".js", ".md":
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("find files: %d, %v", len(paths), err)
	}
	return paths
}
