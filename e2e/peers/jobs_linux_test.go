// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package peers

import (
	"fmt"
	"io/fs"
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

// leastJobs is how many of the job files of its end-to-end tests must be accepted.
const leastJobs = 60

var (
	driverLine = regexp.MustCompile(`driver( *= *)"(?:raw_exec|exec)"`)
	needsBool  = regexp.MustCompile(`variable "(\w+)": bool required`)
	noDefault  = regexp.MustCompile(`variable "(\w+)" has no default`)
	// place begins each line of a refusal. refused is how the rest names what is not supported, invalid what no agent accepts.
	place   = regexp.MustCompile(`^tacho: (?:task \S+ of group \S+: )?\S+/job\.nomad\.hcl:\d[\d,-]*: `)
	refused = regexp.MustCompile(`Not supported; (\w+)|argument named "(\w+)"|function "(\w+)" is not supported|Invalid value; (driver): unknown driver`)
	invalid = regexp.MustCompile(`Invalid value; (?:count|variable) `)
)

// TestJobFiles checks the job files of Nomad's repository whose tasks are of raw_exec or exec, with our driver's name in
// the place of theirs and 1 or true for each variable without a default. All refusals are listed.
func TestJobFiles(t *testing.T) {
	rig.Require(t)
	files := jobFiles(t, nomadSource(t))
	data := startAgent(t, anyPort)
	list := published(t)
	var accepted, endToEnd, endToEndAccepted int
	for _, file := range files {
		tested := strings.HasPrefix(file.path, "e2e/")
		if tested {
			endToEnd++
		}
		refusal := validate(t, data, file.text)
		if refusal == "" {
			accepted++
			if tested {
				endToEndAccepted++
			}
			continue
		}
		t.Logf("%s is refused:\n%s", file.path, refusal)
		checkRefusal(t, list, refusal)
	}
	report(t, "%d of %d are accepted, %d of the %d of its end-to-end tests", accepted, len(files), endToEndAccepted, endToEnd)
	if endToEndAccepted < leastJobs {
		t.Errorf("%d of %d accepted, want %d", endToEndAccepted, endToEnd, leastJobs)
	}
}

// checkRefusal holds each line of a refusal to its place, and to a name that the list in the documentation has.
func checkRefusal(t *testing.T, list, refusal string) {
	t.Helper()
	for line := range strings.Lines(refusal) {
		at := place.FindString(line)
		reason := line[len(at):]
		switch name := refused.FindStringSubmatch(reason); {
		case at == "":
			t.Errorf("names no place: %s", line)
		case name == nil && !invalid.MatchString(reason):
			t.Errorf("names nothing that is refused: %s", line)
		case name != nil && !strings.Contains(list, "`"+strings.Join(name[1:], "")+"`"):
			t.Errorf("docs/configuration.md does not say that this is refused: %s", line)
		}
	}
}

// TestRefusals has job files of our own with what Nomad's have and we refuse, so that the words of refusals are checked without Nomad:
// a comment on each line that is refused has them.
func TestRefusals(t *testing.T) {
	rig.Require(t)
	list, data := published(t), startAgent(t, anyPort)
	paths := testkit.Value(filepath.Glob("testdata/refused/*.nomad.hcl"))(t)
	if len(paths) == 0 {
		t.Fatal("no job files")
	}
	for _, path := range paths {
		text := string(testkit.Value(os.ReadFile(path))(t))
		refusal := validate(t, data, text)
		checkRefusal(t, list, refusal)
		found, n := slices.Collect(strings.Lines(refusal)), 0
		for i, line := range strings.Split(text, "\n") {
			_, words, expected := strings.Cut(line, "# refused: ")
			if !expected {
				continue
			}
			at := regexp.MustCompile(fmt.Sprintf(`\.hcl:%d[,:]`, i+1))
			if n >= len(found) || !at.MatchString(place.FindString(found[n])) || !strings.Contains(found[n], words) {
				t.Errorf("%s: line %d is not refused with %q:\n%s", path, i+1, words, refusal)
			}
			n++
		}
		if n != len(found) {
			t.Errorf("%s: %d refusals, want %d:\n%s", path, len(found), n, refusal)
		}
	}
}

// validate returns why a job file is refused; empty if it is accepted.
func validate(t *testing.T, data, text string) (refusal string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.nomad.hcl")
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	args := []string{"job", "validate", "--data-dir", data, path}
	for {
		out, err := exec.CommandContext(t.Context(), rig.Tacho(), args...).CombinedOutput()
		if err == nil {
			return ""
		}
		if needed := needsBool.FindStringSubmatch(string(out)); needed != nil {
			args[slices.Index(args, needed[1]+"=1")] = needed[1] + "=true"
			continue
		}
		missing := noDefault.FindStringSubmatch(string(out))
		if missing == nil || len(args) > 20 {
			return string(out)
		}
		args = append(args, "--var", missing[1]+"=1")
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

// jobFile is a job file of Nomad's repository with our driver's name.
type jobFile struct{ path, text string }

// jobFiles are the job files below a folder.
func jobFiles(t *testing.T, source string) (files []jobFile) {
	t.Helper()
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".nomad", ".hcl", ".tpl"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && driverLine.Match(text) {
			relative := strings.TrimPrefix(path, filepath.Clean(source)+"/")
			files = append(files, jobFile{relative, driverLine.ReplaceAllString(string(text), `driver${1}"tacho"`)})
		}
		return err
	})
	testkit.Must(t, err)
	return files
}

// start runs a command until the end of the test.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "USER=root", "LOGNAME=root",
		"SHELL=/bin/bash", "LANG=C.UTF-8", "OF_THE_HOST=1",
	}
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
	testkit.Must(t, os.Chmod(dir, 0o711)) // tasks of other users enter it
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

// report prints the result of a test in the table of "make peers".
func report(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("peers: "+format, args...)
}
