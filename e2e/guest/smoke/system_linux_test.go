// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package smoke

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestKernel(t *testing.T) {
	g := here(t)
	release := strings.TrimSpace(read(t, "/proc/sys/kernel/osrelease"))
	if !strings.HasPrefix(release, g.series+".") {
		t.Errorf("kernel is %s, want a %s", release, g.series)
	}
}

func TestFolder(t *testing.T) {
	here(t)
	testkit.Equal(t, read(t, "testdata/hello.txt"), "in the package folder\n", "testdata/hello.txt is")
}

func TestFile(t *testing.T) {
	here(t)
	file := os.Getenv(fileVariable)
	if file == "" {
		t.Skipf("no file was put in: %s is not set", fileVariable)
	}
	read(t, file)
}

func TestDisk(t *testing.T) {
	here(t)
	size, err := os.ReadFile("/sys/block/vda/size")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no disk was asked for (-disk)")
	}
	testkit.Must(t, err)
	sectors, err := strconv.Atoi(strings.TrimSpace(string(size)))
	if err != nil || sectors == 0 {
		t.Errorf("/sys/block/vda/size is %q", size)
	}
}

func TestUser(t *testing.T) {
	here(t)
	u, err := user.Current()
	testkit.Must(t, err)
	if u.Username != os.Getenv("USER") || u.HomeDir != os.Getenv("HOME") {
		t.Errorf("passwd has %s of %s, environment has %s of %s", u.Username, u.HomeDir, os.Getenv("USER"), os.Getenv("HOME"))
	}
	for _, dir := range []string{u.HomeDir, os.TempDir()} {
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
	}
	err = os.WriteFile("/etc/mine", nil, 0o600)
	if os.Getuid() == 0 && err != nil || os.Getuid() != 0 && !errors.Is(err, fs.ErrPermission) {
		t.Errorf("write to /etc as user %d: %v", os.Getuid(), err)
	}
}

// TestPrograms asserts what tests of other packages start.
func TestPrograms(t *testing.T) {
	here(t)
	for _, name := range []string{"sh", "sleep", "seq", "cat", "true", "false", "dd"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Error(err)
		}
	}
	text, err := exec.Command("sh", "-c", "seq 3 | cat").Output()
	testkit.NoError(t, err)
	testkit.Equal(t, string(text), "1\n2\n3\n", "output")
}

// TestLockedMemory asserts the limit that a kernel starts its first process with, and systems leave to services.
func TestLockedMemory(t *testing.T) {
	g := here(t)
	var limit syscall.Rlimit
	const memlock = 8 // RLIMIT_MEMLOCK, which package syscall does not name
	testkit.Must(t, syscall.Getrlimit(memlock, &limit))
	want := uint64(64 << 10)
	if g.since(5, 16) {
		want = 8 << 20
	}
	testkit.Equal(t, limit.Cur, want, "RLIMIT_MEMLOCK")
}

func TestLoopback(t *testing.T) {
	here(t)
	l := testkit.Value(net.Listen("tcp", "localhost:0"))(t)
	defer l.Close()
	c := testkit.Value(net.Dial("tcp", l.Addr().String()))(t)
	c.Close()
}

func TestTerminal(t *testing.T) {
	here(t)
	f := testkit.Value(os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	f.Close()
}

func TestKernelLog(t *testing.T) {
	here(t)
	fd, err := syscall.Open("/dev/kmsg", syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open /dev/kmsg: %v", err)
	}
	defer syscall.Close(fd)
	record := make([]byte, 8192)
	if n, err := syscall.Read(fd, record); err != nil || n == 0 {
		t.Errorf("read /dev/kmsg: %d bytes, %v", n, err)
	}
}

func TestPressure(t *testing.T) {
	g := here(t)
	files := []string{"/proc/pressure/cpu", "/proc/pressure/memory", "/proc/pressure/io"}
	for _, name := range []string{"cpu.pressure", "memory.pressure", "io.pressure"} {
		switch g.layout {
		case "v2":
			files = append(files, filepath.Join(root, name))
		case "hybrid":
			files = append(files, filepath.Join(root, "unified", name))
		}
	}
	for _, file := range files {
		if text := read(t, file); !strings.HasPrefix(text, "some avg10=") {
			t.Errorf("%s: %q", file, text)
		}
	}
}
