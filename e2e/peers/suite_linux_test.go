// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package peers

import (
	_ "embed"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// nomadSource is a checkout of Nomad with its modules at hand.
func nomadSource(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("NOMAD_SOURCE")
	if dir == "" {
		t.Skip("not measured: NOMAD_SOURCE names no checkout of Nomad")
	}
	if _, err := os.Stat(filepath.Join(dir, "drivers", "rawexec")); err != nil {
		t.Fatalf("NOMAD_SOURCE is no checkout of Nomad with its files: %v", err)
	}
	return dir
}

// choices are the tests of Nomad's raw_exec that fail by choice; docs/operating.md has the reasons.
func choices() []string {
	return []string{
		"TestRawExecDriver_DestroyKillsAll", "TestRawExecDriver_ExecutorKilled_ExitCode", "TestRawExecDriver_Fingerprint",
		"TestRawExecDriver_StartWaitRecoverWaitStop", "TestRawExecDriver_Start_Kill_Wait_Cgroup",
	}
}

//go:embed testdata/harness.go.txt
var harness string

//go:embed testdata/bridge.go.txt
var bridge string

// refusalWords are what the tests look for in refusals; a test of the driver holds ours to them where there is no Nomad.
//
//go:embed testdata/refusals.txt
var refusalWords string

// TestDriverSuite runs Nomad's tests of raw_exec with its own client against our executable as an external plugin. Files
// are replaced in the build alone: the harness starts a plugin, calls that bypass the wire go over it, and the driver has
// its own name.
func TestDriverSuite(t *testing.T) {
	rig.Require(t)
	source := nomadSource(t)
	dir := t.TempDir()
	overlay := map[string]string{}
	replace := func(path, text string) {
		file := filepath.Join(dir, strings.ReplaceAll(path, "/", "_")+".go")
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
		overlay[filepath.Join(source, path)] = file
	}
	var texts strings.Builder
	edited := func(path string, edits ...string) {
		text := testkit.Value(os.ReadFile(filepath.Join(source, path)))(t)
		texts.Write(text)
		replace(path, strings.NewReplacer(edits...).Replace(string(text)))
	}
	const utils, tests = "plugins/drivers/testutils/", "drivers/rawexec/"
	replace(utils+"external.go", harness)
	replace(tests+"bridge_test.go", bridge)
	edited(utils+"testing.go", "func NewDriverHarness(", "func newInProcessHarness(", "func (h *DriverHarness) Kill()", "func (h *DriverHarness) killInProcess()")
	edited(tests+"driver_test.go", "\tmust.Eq(t, config, d.(*Driver).config)\n", "", "errDisabledDriver.Error()", `"tacho is disabled"`,
		`"driver.raw_exec"`, `"driver.tacho"`)
	edited(tests+"driver_unix_test.go", "d.Validate(tc.driverConfig)", "validateOverWire(t, harness, tc.driverConfig, tc.exp)",
		"Config{DeniedHostUids:", "Config{Enabled: true, DeniedHostUids:", "d.InspectTask(", "harness.InspectTask(", "d.RecoverTask(", "harness.RecoverTask(", "d.StopTask(", "harness.StopTask(",
		"d.DestroyTask(", "harness.DestroyTask(")
	texts.Write(testkit.Value(os.ReadFile(filepath.Join(source, "drivers/rawexec/driver.go")))(t))
	for line := range strings.Lines(refusalWords) {
		what, words, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if !strings.Contains(texts.String(), strings.ReplaceAll(words, `"`, `\"`)) {
			t.Errorf("testdata/refusals.txt: Nomad does not say %q any more (%s)", words, what)
		}
	}
	text := testkit.Value(json.Marshal(map[string]any{"Replace": overlay}))(t)
	list := filepath.Join(dir, "overlay.json")
	testkit.Must(t, os.WriteFile(list, text, 0o600))
	short, err := os.MkdirTemp("", "peer") // paths of sockets are short
	testkit.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", list, "-count", "1", "-v", "./drivers/rawexec")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "PEER_BINARY="+rig.Tacho(), "PEER_RUNTIME_DIR="+short)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	verdicts := regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\w+)`).FindAllStringSubmatch(string(out), -1)
	passed, failed := 0, []string{}
	for _, v := range verdicts {
		switch v[1] {
		case "PASS":
			passed++
		case "FAIL":
			failed = append(failed, v[2])
		}
	}
	slices.Sort(failed)
	report(t, "%d of %d pass, %d are skipped, %d fail by choice: %s", passed, len(verdicts), len(verdicts)-passed-len(failed), len(failed),
		strings.ReplaceAll(strings.Join(failed, ", "), "TestRawExecDriver_", ""))
	if len(verdicts) < 20 || !slices.Equal(failed, choices()) {
		t.Errorf("failed: %q, want %q\n%s", failed, choices(), out)
	}
}
