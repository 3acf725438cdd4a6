// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package deb

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// release builds the release of a version for this machine from a checkout, and returns where it is.
func release(t *testing.T, checkout, version string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "make", "-s", "release", "VERSION="+version, "DIST="+dir, "ONLY=linux/"+runtime.GOARCH)
	cmd.Dir = checkout
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make release: %v\n%s", err, out)
	}
	return dir
}

// deb finds the Debian package of a release.
func deb(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("Debian packages in %s: %q, %v", dir, found, err)
	}
	return found[0]
}

// TestDeb installs, upgrades, removes and purges the package while a task is running.
func TestDeb(t *testing.T) {
	rig.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("dpkg and mounts require root")
	}
	for _, tool := range []string{"dpkg", "make", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	packages, layers := t.TempDir(), t.TempDir()
	for name, version := range map[string]string{"old.deb": "v1.0.0", "new.deb": "v1.1.0"} {
		testkit.Must(t, os.Rename(deb(t, release(t, "../..", version)), filepath.Join(packages, name)))
	}
	scenario := testkit.Value(filepath.Abs("testdata/scenario.sh"))(t)
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", scenario)
	cmd.Env = append(os.Environ(), "LAYERS="+layers, "PACKAGES="+packages)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%v\n%s", err, stderr.Bytes())
	}
	want := `installed: tacho 1.0.0
unit: /lib/systemd/system/tacho.service
man: .TH "TACHO-RUN" 1
task runs: yes
upgraded: tacho 1.1.0
task runs after the upgrade: yes
removal while the agent runs: 1 stop it first
same task under the new agent: yes
task runs after the purge: no
left in /var/lib: ls: cannot access '/var/lib/tacho': No such file or directory
left in /run: ls: cannot access '/run/tacho': No such file or directory
left in /etc: ls: cannot access '/etc/tacho.d': No such file or directory
left of the program: ls: cannot access '/usr/bin/tacho': No such file or directory
`
	var got strings.Builder
	for line := range strings.Lines(string(out)) {
		got.WriteString(strings.TrimSpace(line) + "\n")
	}
	testkit.Diff(t, "facts", want, got.String())
}

// TestReproducible builds a version in two directories.
func TestReproducible(t *testing.T) {
	rig.Require(t)
	for _, tool := range []string{"git", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", "../..", elsewhere).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dirty := testkit.Value(exec.CommandContext(t.Context(), "git", "-C", "../..", "status", "--porcelain").Output())(t)
	if len(dirty) > 0 {
		t.Skipf("the checkout has changes that a clone has not:\n%s", dirty)
	}
	var sums []string
	for _, checkout := range []string{"../..", elsewhere} {
		content := testkit.Value(os.ReadFile(filepath.Join(release(t, checkout, "v1.0.0"), "SHA256SUMS")))(t)
		sums = append(sums, string(content))
	}
	if sums[0] == "" || sums[0] != sums[1] {
		t.Errorf("checksums of the same commit differ:\n%s\n%s", sums[0], sums[1])
	}
}
