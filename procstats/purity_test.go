// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// sourceFiles parses every file of folders for every operating system, tests aside.
func sourceFiles(t *testing.T, folders ...string) (*token.FileSet, map[string]*ast.File) {
	t.Helper()
	set, files := token.NewFileSet(), map[string]*ast.File{}
	var names []string
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no Go files in %s: %v", folder, err)
		}
		names = append(names, found...)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	return set, files
}

// TestNoGoroutinesAndNoInit holds that nothing runs in these packages but what their callers call.
func TestNoGoroutinesAndNoInit(t *testing.T) {
	set, files := sourceFiles(t, ".", "kernel", "source")
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a goroutine is started", set.Position(n.Pos()))
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "init" {
					t.Errorf("%s: init runs unasked", set.Position(n.Pos()))
				}
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && (n.Sel.Name == "AfterFunc" || n.Sel.Name == "NewTicker") {
					t.Errorf("%s: time.%s makes something run unasked", set.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
}

// TestRootsAreGiven holds that the only path of a running system is the one that HostFS gives: everything else is
// read below the roots of a Target. Texts of the table name files by patterns.
func TestRootsAreGiven(t *testing.T) {
	set, files := sourceFiles(t, ".", "kernel", "source")
	for name, file := range files {
		if strings.HasPrefix(name, "rows_") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && f.Name.Name == "HostFS" {
				return false
			}
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			for _, root := range []string{"/proc", "/sys"} {
				if strings.HasPrefix(strings.Trim(literal.Value, "\"`"), root) {
					t.Errorf("%s: the path %s is not below a given root", set.Position(n.Pos()), literal.Value)
				}
			}
			return true
		})
	}
}
