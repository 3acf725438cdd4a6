// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package docs

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// TestPages writes the files and runs the commands that the pages show, one after the other.
func TestPages(t *testing.T) {
	rig.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("the pages set memory limits, which takes root here")
	}
	t.Setenv("NOMAD_ADDR", nomad(t))
	for _, page := range []string{"tutorial.md", "howto.md"} {
		t.Run(page, func(t *testing.T) {
			dir := t.TempDir()
			ran := 0
			for _, b := range blocks(t, filepath.Join("../../docs", page)) {
				if b.title != "" {
					testkit.Must(t, os.WriteFile(filepath.Join(dir, b.title), []byte(strings.Join(b.lines, "\n")+"\n"), 0o600))
				}
				if b.kind != "console" {
					continue
				}
				for _, c := range b.commands() {
					run(t, dir, c)
					ran++
				}
			}
			if ran == 0 {
				t.Error("the page has no commands")
			}
		})
	}
}

// nomad serves the answers of a Nomad that the tests of package cluster read, as if all tasks had ended just now; it
// returns the address.
func nomad(t *testing.T) string {
	t.Helper()
	text := testkit.Value(os.ReadFile("../../internal/cluster/testdata/answers.json"))(t)
	now := strconv.FormatInt(time.Now().UnixNano(), 10)
	var answers map[string]json.RawMessage
	testkit.Must(t, json.Unmarshal(regexp.MustCompile(`\b1795\d{15}\b`).ReplaceAll(text, []byte(now)), &answers))
	var ended []map[string]any
	testkit.Must(t, json.Unmarshal(answers["/v1/allocations"], &ended))
	ended = slices.DeleteFunc(ended, func(a map[string]any) bool { return a["JobID"] == "serving" })
	answers["/v1/allocations"] = testkit.Value(json.Marshal(ended))(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(answers[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestCommands holds that the program knows each command and flag in blocks that are not run.
func TestCommands(t *testing.T) {
	rig.Require(t)
	parsed := 0
	for _, page := range pagesOf(t) {
		for _, b := range blocks(t, filepath.Join("../..", page)) {
			if b.runs() {
				continue
			}
			for _, args := range commandsOf(b) {
				at := slices.Index(args, "--")
				if at < 0 {
					at = len(args)
				}
				args = slices.Insert(args, at, "--help")
				out, err := exec.CommandContext(t.Context(), rig.Tacho(), args...).CombinedOutput()
				if err != nil || !strings.Contains(string(out), "\nUsage:\n  tacho "+args[0]) {
					t.Errorf("%s: tacho %s: %v\n%s", page, strings.Join(args, " "), err, out)
				}
				parsed++
			}
		}
	}
	if parsed < 20 {
		t.Errorf("only %d commands found", parsed)
	}
}

// run runs a command as a reader would, whatever its exit code, and compares what it prints.
func run(t *testing.T, dir string, c command) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", c.text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(rig.Tacho())+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(out) == 0 {
		got = nil
	}
	if !matches(steady(c.output), steady(got)) {
		t.Errorf("$ %s\n%s\nthe page shows\n%s", c.text, out, strings.Join(c.output, "\n"))
	}
}
