// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

const module = "github.com/tachograph/tacho"

// part is a directory with all below it that is not another part.
type part struct {
	dir string
	// uses are the parts it may import, and whatever those may; itself always.
	uses []string
	// modules are the only modules of others it may import, with all their packages; nil allows any.
	modules []string
	// avoids are packages it must not import itself, with the reason in why.
	avoids []string
	why    string
}

// parts says which way the arrows point. A new directory needs a line here, and so a decision where it stands.
var parts = []part{
	{
		dir: "procstats", modules: []string{},
		avoids: []string{"os", "syscall", "net", "net/http", "os/exec"}, why: "it is the vocabulary and reads nothing",
	},
	{
		dir: "procstats/kernel", uses: []string{"procstats"}, modules: []string{"golang.org/x/sys"},
		avoids: []string{"net", "net/http", "os/exec"}, why: "it only reads files below the roots given to it",
	},
	{
		dir: "procstats/source", uses: []string{"procstats/kernel"},
		modules: []string{"golang.org/x/sys", "github.com/shirou/gopsutil/v4"},
		avoids:  []string{"net", "net/http", "os/exec"}, why: "it only reads files below the roots given to it",
	},
	{
		dir: "procstats/internal/bpf", uses: []string{"procstats/kernel"},
		modules: []string{"golang.org/x/sys", "github.com/cilium/ebpf"},
		avoids:  []string{"net", "net/http", "os/exec"}, why: "it only loads programs",
	},
	{
		dir: "procstats/exits", uses: []string{"procstats/internal/bpf"}, modules: []string{"golang.org/x/sys", "github.com/cilium/ebpf"},
		avoids: []string{"net", "net/http", "os/exec"}, why: "it only reads what the kernel hands it",
	},
	{
		dir: "procstats/network", uses: []string{"procstats/internal/bpf"}, modules: []string{"golang.org/x/sys", "github.com/cilium/ebpf"},
		avoids: []string{"net", "net/http", "os/exec"}, why: "it only reads what the kernel hands it",
	},
	{dir: "internal/version", modules: []string{}},
	{dir: "docs", modules: []string{}},                                       // for tests only
	{dir: "internal/testkit", modules: []string{"github.com/google/go-cmp"}}, // for tests only
	{dir: "internal/failpoint", modules: []string{}},
	{dir: "internal/regular", modules: []string{}},
	{dir: "internal/paths", modules: []string{}},
	{dir: "internal/removal", uses: []string{"procstats/kernel"}, modules: []string{"golang.org/x/sys"}},
	{
		dir: "internal/eventlog", modules: []string{},
		avoids: []string{"os", "net"}, why: "it is memory and a lock, for executor, driver and agent alike",
	},
	{dir: "internal/series", uses: []string{"procstats"}, modules: []string{"github.com/hashicorp/go-hclog"}},
	{
		dir: "executor/record", uses: []string{"internal/series", "internal/failpoint", "internal/regular"}, modules: []string{},
		avoids: []string{"net", "net/http", "os/exec"}, why: "a diagnosis is a pure function of what was read",
	},
	{
		dir: "internal/figures", uses: []string{"executor/record", "internal/series"}, modules: []string{},
		avoids: []string{"os", "net", "net/http"}, why: "every surface uses it, and it only computes",
	},
	{dir: "internal/chart", uses: []string{"procstats"}, modules: []string{}},
	{dir: "internal/exposition", uses: []string{"procstats"}, modules: []string{}},
	{dir: "plugin/proto"},
	{dir: "executor/proto"},
	{dir: "executor/wire", uses: []string{"procstats", "executor/proto"}},
	{dir: "executor/process", uses: []string{"procstats/kernel"}, modules: []string{"golang.org/x/sys"}},
	{dir: "executor/cgroup", uses: []string{"executor/process", "executor/proto", "executor/record", "procstats/kernel"}},
	{
		dir: "executor/oom", uses: []string{"executor/process", "executor/record", "procstats/kernel"},
		modules: []string{"golang.org/x/sys", "github.com/hashicorp/go-hclog"},
	},
	{dir: "executor/logs", uses: []string{"internal/failpoint"}, modules: []string{"golang.org/x/sys"}},
	{
		dir: "executor/reader", uses: []string{"procstats/source", "procstats/exits", "procstats/network", "executor/record", "executor/wire"},
		modules: []string{"golang.org/x/sys", "google.golang.org/protobuf", "github.com/hashicorp/go-hclog"},
	},
	{dir: "executor", uses: []string{"executor/reader", "internal/removal", "executor/cgroup", "executor/oom", "executor/logs", "internal/eventlog", "internal/failpoint", "internal/version"}},
	{dir: "executor/client", uses: []string{"internal/removal", "internal/paths", "executor/record", "executor/wire", "executor/cgroup", "internal/failpoint", "internal/version"}},
	{dir: "driver/sampling", uses: []string{"executor/client", "executor/reader"}},
	{dir: "driver", uses: []string{"driver/sampling", "internal/exposition", "internal/eventlog"}},
	{dir: "plugin/wire", uses: []string{"driver", "plugin/proto"}},
	{dir: "plugin", uses: []string{"plugin/wire"}},
	// The host's side of the wire is for tests.
	{
		dir: "hook", uses: []string{"procstats"}, modules: []string{"github.com/hashicorp/go-hclog", "github.com/hashicorp/go-multierror"},
		avoids: []string{"net/http"}, why: "an orchestrator can use it alone",
	},
	{dir: "internal/agent/apijson", uses: []string{"executor/record"}, modules: []string{}},
	{dir: "internal/agent/client", uses: []string{"internal/agent/apijson", "internal/paths", "internal/regular"}},
	{dir: "internal/agent/datadir", uses: []string{"internal/removal", "internal/paths"}, modules: []string{}},
	{dir: "internal/agent/job", uses: []string{"hook"}},
	{dir: "internal/agent/config", uses: []string{"internal/agent/datadir", "internal/agent/job", "internal/regular"}},
	{dir: "internal/agent/node", uses: []string{"internal/agent/job", "driver"}},
	{dir: "internal/agent/allocation", uses: []string{"internal/agent/datadir", "internal/agent/job", "internal/figures"}, modules: []string{}},
	{dir: "internal/agent/state", uses: []string{"internal/agent/allocation", "internal/failpoint", "driver"}},
	{dir: "internal/agent/streams", modules: []string{}},
	{dir: "internal/agent/snapshot", uses: []string{"internal/agent/allocation", "internal/agent/config", "internal/agent/node", "internal/eventlog"}, modules: []string{}},
	// What shows the agent knows its snapshot, and not the agent.
	{dir: "internal/agent/metrics", uses: []string{"internal/agent/snapshot", "internal/agent/streams", "internal/exposition", "plugin/wire"}, modules: []string{"github.com/klauspost/compress"}},
	{dir: "internal/agent/page", uses: []string{"internal/agent/snapshot", "internal/agent/streams", "internal/series", "internal/chart", "executor/record"}},
	{dir: "internal/agent/api", uses: []string{"internal/agent/apijson", "internal/agent/snapshot", "internal/series", "internal/agent/metrics", "executor/record"}},
	{dir: "internal/agent/alloc", uses: []string{"internal/agent/snapshot", "internal/agent/state", "internal/series", "executor/oom"}},
	{dir: "internal/agent", uses: []string{"internal/agent/alloc"}},
	{dir: "internal/cluster", uses: []string{"internal/agent/client"}, modules: []string{"github.com/hashicorp/hcl/v2", "github.com/zclconf/go-cty", "github.com/rogpeppe/go-internal/diff"}},
	{dir: "internal/command/cli", uses: []string{"procstats"}},
	{dir: "internal/command/budget", uses: []string{"internal/command/cli", "executor/record"}},
	{dir: "internal/command/repeat", uses: []string{"internal/command/cli", "executor/record"}},
	{dir: "internal/command/summary", uses: []string{"internal/command/budget", "internal/command/cli", "internal/figures"}},
	{dir: "internal/command/rundir", uses: []string{"internal/command/repeat", "procstats/source"}},
	{dir: "internal/command/run", uses: []string{"internal/command/repeat", "internal/command/summary", "internal/exposition", "internal/command/rundir", "executor", "executor/client", "procstats/source", "internal/agent/datadir"}},
	{dir: "internal/command/record", uses: []string{"executor/record", "internal/command/repeat", "internal/command/summary", "internal/command/rundir", "internal/chart"}},
	{dir: "internal/command/remote", uses: []string{"internal/cluster", "internal/figures", "internal/command/rundir", "internal/command/summary", "internal/agent/client", "internal/agent/datadir"}},
	{dir: "internal/command/doctor", uses: []string{"internal/command/cli", "executor/client", "procstats/source", "procstats/exits", "procstats/network"}},
	{dir: "internal/command/agent", uses: []string{"internal/command/cli", "internal/agent", "internal/agent/api", "internal/agent/client", "internal/agent/page"}},
	{dir: "internal/command", uses: []string{"internal/command/run", "internal/command/record", "internal/command/remote", "internal/command/doctor", "internal/command/agent"}},
	{dir: "packaging/release", uses: []string{"internal/command"}, modules: []string{"github.com/spf13/cobra"}},
	{dir: "e2e", uses: []string{"internal/command", "plugin", "internal/testkit"}},
	{dir: "", uses: []string{"internal/command", "plugin", "executor"}}, // main.go: which mode this process is
}

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Imports    []string
}

// TestArrows holds that packages import each other only in the directions of the design, on every system that
// the program is built for. A package that does not exist yet breaks no rule.
func TestArrows(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			packages := list(t, goos)
			if len(packages) == 0 {
				t.Fatal("go list knows no package of this module")
			}
			for _, p := range packages {
				from, ok := partOf(p.ImportPath)
				if !ok {
					t.Errorf("%s is in no part: give it a line in this test", p.ImportPath)
					continue
				}
				for _, imported := range p.Imports {
					testkit.Equal(t, forbidden(from, imported), "", "%s imports %s", p.ImportPath, imported)
				}
			}
		})
	}
}

// TestArrowsPointOneWay holds that the rules themselves have no circle.
func TestArrowsPointOneWay(t *testing.T) {
	for _, p := range parts {
		for _, used := range reachable(p.dir) {
			if used != p.dir && slices.Contains(reachable(used), p.dir) {
				t.Errorf("%q and %q may import each other", p.dir, used)
			}
		}
	}
}

func TestForbidden(t *testing.T) {
	tests := []struct {
		from, imported string
		allowed        bool
	}{
		{"procstats", "os", false},
		{"procstats", module + "/procstats/kernel", false},
		{"procstats/kernel", "golang.org/x/sys/unix", true},
		{"hook", module + "/procstats", true},
		{"plugin", module + "/plugin/proto/structs", true},
		{"executor/record", "github.com/google/go-cmp/cmp", false},
		{"executor", module + "/executor/internal/thing", true},
		{"internal/agent/page", module + "/plugin", false},
	}
	for _, tt := range tests {
		i := slices.IndexFunc(parts, func(p part) bool { return p.dir == tt.from })
		if broken := forbidden(parts[i], tt.imported); (broken == "") != tt.allowed {
			t.Errorf("%s imports %s: %q", tt.from, tt.imported, broken)
		}
	}
}

// list asks the go command for every package of this module with its imports, tests aside. Packages that do not
// compile are listed all the same.
func list(t *testing.T, goos string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports", "./...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// partOf finds the part with the longest directory that a package of this module is in.
func partOf(path string) (found part, ok bool) {
	dir, inside := folder(path)
	if !inside {
		return part{}, false
	}
	for _, p := range parts {
		if within(dir, p.dir) && (!ok || len(p.dir) > len(found.dir)) {
			found, ok = p, true
		}
	}
	return found, ok
}

// directory returns a package's directory in this module; ok is false for packages of others.
func folder(path string) (dir string, ok bool) {
	rest, ok := strings.CutPrefix(path, module)
	if !ok || (rest != "" && rest[0] != '/') {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

// within reports whether a directory is part of another; the root is part of nothing and has no parts.
func within(dir, of string) bool { return dir == of || (of != "" && strings.HasPrefix(dir, of+"/")) }

// reachable lists the parts that a part may import.
func reachable(dir string) []string {
	dirs := []string{dir}
	for i := 0; i < len(dirs); i++ {
		for _, p := range parts {
			if p.dir != dirs[i] {
				continue
			}
			for _, used := range p.uses {
				if !slices.Contains(dirs, used) {
					dirs = append(dirs, used)
				}
			}
		}
	}
	return dirs
}

// forbidden says why a part must not import a package; empty where it may.
func forbidden(from part, imported string) string {
	if slices.Contains(from.avoids, imported) {
		return from.why
	}
	if _, inside := folder(imported); inside {
		to, ok := partOf(imported)
		if !ok || !slices.Contains(reachable(from.dir), to.dir) {
			return "the arrow points the other way"
		}
		return ""
	}
	if from.modules == nil || !strings.Contains(strings.Split(imported, "/")[0], ".") {
		return "" // any module may be used, or it is the standard library
	}
	if !slices.ContainsFunc(from.modules, func(m string) bool { return within(imported, m) }) {
		return "this part keeps to the standard library and " + strings.Join(from.modules, ", ")
	}
	return ""
}

// TestKernelFilesAreReadInOneRoom holds that only procstats/kernel names the files that have parsers there where
// something is opened. Tests may.
func TestKernelFilesAreReadInOneRoom(t *testing.T) {
	opens := regexp.MustCompile(`^(os\.(Open|OpenFile|ReadFile|ReadDir)|filepath\.(Join|Glob)|unix\.Open(at)?|fmt\.Sprintf)$`)
	parsed := regexp.MustCompile(`(^|/)(mountinfo|stat|statm|smaps_rollup|children|cgroup\.procs|cpuinfo|cgroups)$`)
	// Moving a process into a cgroup is a write.
	writes := map[string]bool{"executor/cgroup": true}
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		dir := filepath.ToSlash(filepath.Dir(path))
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path == "e2e" || path == ".git"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || dir == "procstats/kernel" || writes[dir]:
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !opens.MatchString(types.ExprString(call.Fun)) {
				return true
			}
			for _, arg := range call.Args {
				literal, ok := arg.(*ast.BasicLit)
				if ok && parsed.MatchString(strings.Trim(literal.Value, "\"`")) {
					t.Errorf("%s: %s has a parser in procstats/kernel: read it there", fset.Position(call.Pos()), literal.Value)
				}
			}
			return true
		})
		return nil
	})
	testkit.Must(t, err)
}
