// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

// asCommand makes the test binary be the command guest.
const asCommand = "GUEST_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// buildSmoke skips the test where no guest can be started, and builds the smoke tests for those
// that can.
func buildSmoke(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("boots guests: a minute of work, not for -short")
	}
	if _, err := exec.LookPath(options{}.processor().emulator); err != nil {
		t.Skipf("no guests here: %v (Debian package qemu-system-x86)", err)
	}
	cache := testkit.Value(cacheFolder())(t)
	for _, s := range allSeries() {
		if _, err := findKernel(cache, s.name, "amd64"); err != nil {
			t.Skip(err)
		}
	}
	binary := filepath.Join(t.TempDir(), "smoke.test")
	cmd := exec.Command("go", "test", "-c", "-o", binary, ".")
	cmd.Dir = "smoke"
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build smoke tests: %v\n%s", err, text)
	}
	return binary
}

// outcome is how the command guest ended.
type outcome struct {
	status         int
	stdout, stderr string
}

// runGuest runs the command guest in the package folder of the smoke tests.
func runGuest(t *testing.T, role string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Dir = "smoke"
	cmd.Env = append(os.Environ(), asCommand+"=1", "TACHO_SMOKE_ROLE="+role)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func TestSmoke(t *testing.T) {
	smoke := buildSmoke(t)
	for _, line := range []string{ // what "make guest-all" does not run
		"-kernel 6.12 -delegate",
		"-kernel 6.12 -user nobody",
		"-kernel 6.12 -user nobody -delegate",
		"-kernel 6.1 -cgroup v1 -user nobody",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			got := runGuest(t, "", append(strings.Fields(line), smoke, "-test.v")...)
			if got.status != 0 || !strings.HasSuffix(got.stdout, "PASS\n") {
				t.Errorf("status %d\n%s\n%s", got.status, got.stdout, got.stderr)
			}
		})
	}
}

func TestRun(t *testing.T) {
	smoke := buildSmoke(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, test := range []struct {
		role   string
		args   string
		status int
		stdout string
		stderr string
	}{
		{"bytes", "-kernel 6.1", 7, strings.Repeat(string(every), 1000), ""},
		{"kill", "", 137, "", "signal: killed"},
		{"leave", "", 0, "left\n", ""},
		{"crash", "", statusNothing, "", "Kernel panic"},
		{"sleep", "-grace 10s", statusNothing, "", errDeadline.Error()},
		{"sleep", "-boot 100ms", statusNothing, "", errBoot.Error()},
	} {
		t.Run(test.role+" "+test.args, func(t *testing.T) {
			t.Parallel()
			got := runGuest(t, test.role, append(strings.Fields(test.args), smoke, "-test.timeout=1s")...)
			if got.status != test.status || got.stdout != test.stdout || !strings.Contains(got.stderr, test.stderr) {
				t.Errorf("status %d, want %d; %d bytes of output, want %d; stderr %q, want %q",
					got.status, test.status, len(got.stdout), len(test.stdout), got.stderr, test.stderr)
			}
		})
	}
}

func TestFilesAndOutputs(t *testing.T) {
	smoke := buildSmoke(t)
	profile := filepath.Join(t.TempDir(), "deep", "cpu.out")
	testkit.Must(t, os.MkdirAll(filepath.Dir(profile), 0o755))
	t.Setenv("TACHO_GUEST_FILES", "testdata:/more")
	t.Setenv("TACHO_SMOKE_FILE", "/more/hello.txt")
	got := runGuest(t, "", "-user", "nobody", "-disk", "8", smoke,
		"-test.run=TestFile|TestDisk", "-test.v", "-test.cpuprofile="+profile)
	for _, want := range []string{"--- PASS: TestFile", "--- PASS: TestDisk"} {
		if got.status != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("status %d, no %q\n%s\n%s", got.status, want, got.stdout, got.stderr)
		}
	}
	if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
		t.Errorf("profile of the guest: %v, %v", info, err)
	}
}

func TestStatic(t *testing.T) {
	if !exists("/bin/sh") {
		t.Skip("no /bin/sh, the program of this system that is known to be dynamic")
	}
	for file, want := range map[string]string{
		"main.go":         "read main.go",
		"none":            "read none",
		"/bin/sh":         "is not static",
		"/proc/self/fd/x": "read /proc",
	} {
		if err := static(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("static(%s): %v, want %q", file, err, want)
		}
	}
}
