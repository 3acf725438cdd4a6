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

	"github.com/tachograph/tacho/internal/testkit"
)

// TestNothingIsHidden holds, of every file for every operating system, that nothing runs but what callers call, and
// that the only path of a running system is the one that HostFS gives: everything else is read below the roots of a
// Target. Texts of the table name files by patterns.
func TestNothingIsHidden(t *testing.T) {
	for _, folder := range []string{".", "kernel", "source"} {
		names, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("no Go files in %s: %v", folder, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file := testkit.Value(parser.ParseFile(set, name, nil, parser.SkipObjectResolution))(t)
			ast.Inspect(file, func(n ast.Node) bool {
				_, isText := n.(*ast.BasicLit)
				if hidden := hiddenIn(n); hidden != "" && !(isText && strings.HasPrefix(name, "rows_")) {
					t.Errorf("%s: %s", set.Position(n.Pos()), hidden)
				}
				f, ok := n.(*ast.FuncDecl)
				return !ok || f.Name.Name != "HostFS"
			})
		}
	}
}

// hiddenIn says what a node does that it should not; empty for nothing.
func hiddenIn(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine is started"
	case *ast.FuncDecl:
		if n.Recv == nil && n.Name.Name == "init" {
			return "init runs unasked"
		}
	case *ast.SelectorExpr:
		if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && (n.Sel.Name == "AfterFunc" || n.Sel.Name == "NewTicker") {
			return "time." + n.Sel.Name + " makes something run unasked"
		}
	case *ast.BasicLit:
		text := strings.Trim(n.Value, "\"`")
		if n.Kind == token.STRING && (strings.HasPrefix(text, "/proc") || strings.HasPrefix(text, "/sys")) {
			return "the path " + text + " is not below a given root"
		}
	}
	return ""
}
