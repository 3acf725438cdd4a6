// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package peers

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// leastJobs is how many of the job files must be accepted.
const leastJobs = 60

var (
	driverLine = regexp.MustCompile(`driver( *= *)"(?:raw_exec|exec)"`)
	needsBool  = regexp.MustCompile(`variable "(\w+)": bool required`)
	noDefault  = regexp.MustCompile(`variable "(\w+)" has no default`)
	// refused is how a refusal names what is not supported, invalid what no agent accepts.
	refused = regexp.MustCompile(`Not supported; (\w+)|argument named "(\w+)"|function "(\w+)" is not supported|Invalid value; (driver): unknown driver`)
	invalid = regexp.MustCompile(`Invalid value; (?:count|variable) `)
	place   = regexp.MustCompile(`[\w./-]+:[\d,-]+: `)
)

// TestJobFiles checks the job files of Nomad's repository whose tasks are of raw_exec or exec, with our driver's name in
// the place of theirs and 1 or true for each variable without a default. All refusals are listed.
func TestJobFiles(t *testing.T) {
	rig.Require(t)
	files := jobFiles(t, nomadSource(t))
	data := startAgent(t, anyPort)
	accepted, refusals := 0, map[string]int{}
	for _, text := range files {
		path := filepath.Join(t.TempDir(), "job.nomad.hcl")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		args := []string{"job", "validate", "--data-dir", data, path}
		for {
			out, err := exec.CommandContext(t.Context(), rig.Tacho(), args...).CombinedOutput()
			if err == nil {
				accepted++
				break
			}
			if needed := needsBool.FindStringSubmatch(string(out)); needed != nil {
				args[slices.Index(args, needed[1]+"=1")] = needed[1] + "=true"
				continue
			}
			missing := noDefault.FindStringSubmatch(string(out))
			if missing == nil || len(args) > 20 {
				first, _, _ := strings.Cut(place.ReplaceAllString(string(out), ""), "\n")
				refusals[first]++
				break
			}
			args = append(args, "--var", missing[1]+"=1")
		}
	}
	t.Logf("%d of %d accepted", accepted, len(files))
	list := published(t)
	for _, reason := range slices.Sorted(maps.Keys(refusals)) {
		t.Logf("%d refused: %s", refusals[reason], reason)
		if name := refused.FindStringSubmatch(reason); name != nil && !strings.Contains(list, "`"+strings.Join(name[1:], "")+"`") {
			t.Errorf("docs/configuration.md does not say that this is refused: %s", reason)
		} else if name == nil && !invalid.MatchString(reason) {
			t.Errorf("names nothing that is refused: %s", reason)
		}
	}
	if accepted < leastJobs {
		t.Errorf("%d of %d accepted, want %d", accepted, len(files), leastJobs)
	}
}

// published is the list of what job files cannot have, and their templates.
func published(t *testing.T) (lists string) {
	t.Helper()
	text := testkit.Value(os.ReadFile("../../docs/configuration.md"))(t)
	for _, begin := range []string{"\nAnything else is rejected", "\nNot supported, and named"} {
		_, list, _ := strings.Cut(string(text), begin)
		list, _, found := strings.Cut(list, "\n\n")
		if !found {
			t.Fatalf("docs/configuration.md has no list that begins with %q", begin)
		}
		lists += list
	}
	return lists
}

// jobFiles are the texts of the job files below a folder.
func jobFiles(t *testing.T, source string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".nomad", ".hcl", ".tpl"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && driverLine.Match(text) {
			files = append(files, driverLine.ReplaceAllString(string(text), `driver${1}"tacho"`))
		}
		return err
	})
	testkit.Must(t, err)
	return files
}

// start runs a command until the end of the test.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

// anyPort lets an agent choose its port.
const anyPort = "ports {\n  http = 0\n}\n"

// startAgent starts an agent with a configuration and returns its data directory.
func startAgent(t *testing.T, settings string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "peer") // the path of a socket is short
	testkit.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := filepath.Join(dir, "agent.hcl")
	testkit.Must(t, os.WriteFile(config, []byte(settings), 0o600))
	data := filepath.Join(dir, "data")
	start(t, exec.Command(rig.Tacho(), "agent", "--config", config, "--data-dir", data))
	rig.Eventually(t, 30*time.Second, "the agent answers", func() bool {
		_, err := os.Stat(filepath.Join(data, "tacho.sock"))
		return err == nil
	})
	return data
}
