// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package smoke

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// What a copy of the test binary does instead of testing, as roleVariable says. The tests of this
// package and those of the harness use it.
const (
	roleVariable   = "TACHO_SMOKE_ROLE"
	cgroupVariable = "TACHO_SMOKE_CGROUP" // entered before
	fileVariable   = "TACHO_SMOKE_FILE"   // one that was put in beside the testdata

	roleEat   = "eat"   // touch memory twice as large as memoryLimit
	roleSleep = "sleep" // for ever
	roleBytes = "bytes" // write every byte a thousand times and exit with status 7
	roleKill  = "kill"  // be killed by SIGKILL
	roleLeave = "leave" // exit while a child holds stdout open
	roleCrash = "crash" // take the kernel along
)

const memoryLimit = 64 << 20

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, "smoke:", err)
		os.Exit(1)
	}
}

func play(role string) error {
	if dir := os.Getenv(cgroupVariable); dir != "" {
		if err := os.WriteFile(dir+"/cgroup.procs", []byte("0"), 0); err != nil {
			return err
		}
	}
	switch role {
	case roleEat:
		memory := make([]byte, 2*memoryLimit)
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = 1
		}
		return fmt.Errorf("touched %d bytes and lives", len(memory))
	case roleSleep:
		return syscall.Pause()
	case roleBytes:
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		for range 1000 {
			if _, err := os.Stdout.Write(all); err != nil {
				return err
			}
		}
		os.Exit(7)
	case roleKill:
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case roleLeave:
		child := copyOf(roleSleep)
		child.Stdout = os.Stdout
		fmt.Println("left")
		return child.Start()
	case roleCrash:
		return os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0)
	default:
		return fmt.Errorf("unknown role %q", role)
	}
	return nil
}

// copyOf is a command that runs this binary in a role.
func copyOf(role string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return cmd
}

// guest is where the tests run.
type guest struct {
	series string // of the kernel, "6.1"
	layout string // of the cgroups: "v1", "v2", "flat" or "hybrid"
	major  int    // of the kernel's version
	minor  int
}

// since is whether the kernel is that version or a later one.
func (g guest) since(major, minor int) bool {
	return g.major > major || g.major == major && g.minor >= minor
}

func here(t *testing.T) guest {
	t.Helper()
	series, layout, ok := strings.Cut(os.Getenv("TACHO_GUEST"), "/")
	if !ok {
		t.Skip("not in a guest kernel (TACHO_GUEST is not set): go test -exec with e2e/guest runs this")
	}
	g := guest{series: series, layout: layout}
	release := read(t, "/proc/sys/kernel/osrelease")
	if n, err := fmt.Sscanf(release, "%d.%d", &g.major, &g.minor); n != 2 {
		t.Fatalf("kernel %q: %v", release, err)
	}
	return g
}

func read(t *testing.T, file string) string {
	t.Helper()
	text := testkit.Value(os.ReadFile(file))(t)
	return string(text)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(file, []byte(text), 0))
}

// value returns a value out of a file of "name value" lines.
func value(t *testing.T, file, name string) int {
	t.Helper()
	for line := range strings.Lines(read(t, file)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			return n
		}
	}
	t.Fatalf("%s: no %s", file, name)
	return 0
}
