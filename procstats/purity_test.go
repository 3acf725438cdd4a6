// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// sourceFiles parses every file of the package for every operating system, tests aside.
func sourceFiles(t *testing.T) (*token.FileSet, map[string]*ast.File) {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	set, files := token.NewFileSet(), map[string]*ast.File{}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	if len(files) == 0 {
		t.Fatal("no source files")
	}
	return set, files
}

// TestNoGoroutinesAndNoInit holds that nothing runs in this package but what its callers call.
func TestNoGoroutinesAndNoInit(t *testing.T) {
	set, files := sourceFiles(t)
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
	set, files := sourceFiles(t)
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
