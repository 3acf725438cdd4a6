// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package unit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/confine"
	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

const (
	manager = "/lib/systemd/systemd"
	service = "tacho.service"
	// patience is how long anything may take that is expected to happen at all; guests may be emulated.
	patience = time.Minute
)

// machine is a systemd that runs a container: PID 1 of a PID namespace, in the root of a cgroup namespace.
type machine struct {
	*systemd.Conn
	t   *testing.T
	log bytes.Buffer // of systemd; read when it has ended
}

// boot starts a systemd with the unit of the package and nothing else.
func boot(t *testing.T) *machine {
	t.Helper()
	rig.Require(t)
	if os.Getenv("TACHO_GUEST") == "" {
		t.Skip("a systemd of its own, and files in /var and /bin: in a guest only")
	}
	if _, err := os.Stat(manager); err != nil {
		t.Skipf("systemd is not installed here: %v", err)
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		t.Skipf("systemd takes v1 hierarchies as a whole: %v", err)
	}
	m := &machine{t: t}
	cmd := exec.Command(manager, "--system", "--show-status=no")
	cmd.Env = []string{"container=test", "PATH=/usr/bin:/bin", "SYSTEMD_UNIT_PATH=" + m.units()}
	cmd.Stdout, cmd.Stderr = &m.log, &m.log
	group := newGroup(t)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC, UseCgroupFD: true, CgroupFD: int(group.Fd()),
	}
	steps := []confine.Step{confine.CgroupNamespace, confine.CgroupMounts, confine.Proc, confine.EmptyRun}
	testkit.Must(t, confine.Wrap(cmd, self(t), confine.Options{Steps: steps}))
	testkit.Must(t, errors.Join(cmd.Start(), group.Close()))
	t.Cleanup(func() {
		// All of its PID namespace ends with it.
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			log, err := os.ReadFile(logFile)
			t.Logf("systemd:\n%s\nthe agent (%v):\n%s", m.log.String(), err, log[max(0, len(log)-8000):])
		}
	})
	// The socket by which it is reached without a bus.
	socket := fmt.Sprintf("/proc/%d/root/run/systemd/private", cmd.Process.Pid)
	m.eventually("systemd", func() bool {
		_, err := os.Stat(socket)
		return err == nil
	})
	testkit.Must(t, m.connect(cmd.Process.Pid, socket))
	return m
}

// connect connects to systemd itself.
func (m *machine) connect(pid int, socket string) (err error) {
	m.Conn, err = systemd.NewConnection(func() (*dbus.Conn, error) {
		relayed, err := m.startRelay(pid, socket)
		if err != nil {
			return nil, err
		}
		conn, err := dbus.NewConn(relayed)
		if err != nil {
			return nil, err
		}
		return conn, conn.Auth([]dbus.Auth{dbus.AuthExternal("0")})
	})
	if err == nil {
		m.t.Cleanup(m.Close)
	}
	return err
}

// relayed is a connection through a process in another PID namespace.
type relayed struct {
	io.WriteCloser
	io.Reader
}

// startRelay connects from within the PID namespace of a process: systemd refuses whoever has no number in its own.
func (m *machine) startRelay(pid int, socket string) (*relayed, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{taskVariable + "=relay", socketVariable + "=" + socket}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	started := make(chan error)
	go func() {
		// Without an unlock the thread ends with the goroutine: what it forks would be in that namespace.
		runtime.LockOSThread()
		err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWPID)
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	// The namespace does not end before its last process was waited for.
	m.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	return &relayed{stdin, stdout}, nil
}

// newGroup is a cgroup in which systemd has all controllers.
func newGroup(t *testing.T) *os.File {
	t.Helper()
	const root = "/sys/fs/cgroup"
	controllers := testkit.Value(os.ReadFile(filepath.Join(root, "cgroup.controllers")))(t)
	for name := range strings.FieldsSeq(string(controllers)) {
		testkit.Must(t, os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+name), 0))
	}
	dir := testkit.Value(os.MkdirTemp(root, "machine-"))(t)
	group := testkit.Value(os.Open(dir))(t)
	return group
}

// logFile is where the agent's log goes.
const logFile = "/tmp/agent.log"

// settings are for the test only: where things are, and less patience.
const settings = `[Service]
ExecStart=
ExecStart=%s agent --config %s
StandardOutput=file:%s
StandardError=file:%s
RestartSec=200ms
WatchdogSec=3s
TimeoutAbortSec=2s
`

// units is a folder with the unit as it is packaged, and those that systemd cannot do without.
func (m *machine) units() string {
	m.t.Helper()
	dir := m.t.TempDir()
	unit := testkit.Value(os.ReadFile("../../packaging/tacho.service"))(m.t)
	config := filepath.Join(dir, "agent.hcl")
	files := map[string]string{
		service:                  string(unit),
		service + ".d/test.conf": fmt.Sprintf(settings, rig.Tacho(), config, logFile, logFile),
		"agent.hcl": "data_dir = \"/var/lib/tacho\"\nports {\n  http = -1\n}\nlog_level = \"debug\"\n" +
			"telemetry {\n  publish_allocation_metrics = true\n}\nwatch {\n  cgroups = [\"system.slice/*.service\"]\n}\n",
	}
	for _, target := range []string{"default", "sysinit", "basic", "shutdown"} {
		files[target+".target"] = "[Unit]\nDefaultDependencies=no\n"
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		testkit.Must(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(m.t, os.WriteFile(path, []byte(text), 0o644))
	}
	if _, err := os.Stat("/bin/kill"); err != nil {
		testkit.Must(m.t, os.Symlink(self(m.t), "/bin/kill"))
	}
	return dir
}

// self is this binary.
func self(t *testing.T) string {
	t.Helper()
	path := testkit.Value(os.Executable())(t)
	return path
}

// do lets systemd do something with the unit, and waits until it has.
func (m *machine) do(what string, call func(context.Context, string, string, chan<- string) (int, error)) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	ended := make(chan string, 1)
	if _, err := call(ctx, service, "replace", ended); err != nil {
		m.t.Fatalf("%s: %v", what, err)
	}
	select {
	case result := <-ended:
		if result != "done" {
			m.t.Fatalf("%s: %s", what, result)
		}
	case <-ctx.Done():
		m.t.Fatalf("%s does not end", what)
	}
}

// property is one of the unit's, as text.
func (m *machine) property(name string) string {
	m.t.Helper()
	p, err := m.GetUnitPropertyContext(m.t.Context(), service, name)
	if err != nil {
		p, err = m.GetServicePropertyContext(m.t.Context(), service, name)
	}
	testkit.Must(m.t, err)
	return fmt.Sprint(p.Value.Value())
}

// mainPID is the agent's process, by its number in systemd's namespace.
func (m *machine) mainPID() string { return m.property("MainPID") }

// eventually polls: what is waited for happens in other processes.
func (m *machine) eventually(what string, is func() bool) {
	m.t.Helper()
	rig.Poll(m.t, 50*time.Millisecond, patience, what, is)
}
