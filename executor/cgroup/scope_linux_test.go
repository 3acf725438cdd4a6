// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/tachograph/tacho/internal/testkit"
)

// manager is as much of systemd as scopes need: it makes the cgroup, moves the processes, and reports the job.
type manager struct {
	t    *testing.T
	conn *godbus.Conn
	root string // of v2
	// result is the job's; "" leaves it unfinished for ever.
	result string
	// refuse is the error that every request is answered with; "" for none.
	refuse string

	mu    sync.Mutex // guards following
	asked []request
}

type request struct {
	name, mode string
	properties map[string]any
}

// property is the (sv) of the interface.
type property struct {
	Name  string
	Value godbus.Variant
}

// auxiliary is the (sa(sv)) of the interface.
type auxiliary struct {
	Name       string
	Properties []property
}

const (
	systemdName  = "org.freedesktop.systemd1"
	systemdPath  = godbus.ObjectPath("/org/freedesktop/systemd1")
	systemdIface = systemdName + ".Manager"
)

// StartTransientUnit is the method of org.freedesktop.systemd1.Manager.
func (m *manager) StartTransientUnit(name, mode string, properties []property, _ []auxiliary) (godbus.ObjectPath, *godbus.Error) {
	r := request{name: name, mode: mode, properties: map[string]any{}}
	for _, p := range properties {
		r.properties[p.Name] = p.Value.Value()
	}
	m.mu.Lock()
	m.asked = append(m.asked, r)
	number := len(m.asked)
	m.mu.Unlock()
	if m.refuse != "" {
		return "", godbus.NewError("org.freedesktop.DBus.Error.AccessDenied", []any{m.refuse})
	}
	if err := m.move(r); err != nil {
		return "", godbus.MakeFailedError(err)
	}
	job := godbus.ObjectPath(fmt.Sprintf("%s/job/%d", systemdPath, number))
	if m.result != "" {
		// The signal can come before the answer to the call, as with systemd.
		if err := m.conn.Emit(systemdPath, systemdIface+".JobRemoved", uint32(number), job, name, m.result); err != nil {
			return "", godbus.MakeFailedError(err)
		}
	}
	return job, nil
}

func (m *manager) move(r request) error {
	dir := filepath.Join(m.root, r.name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	pids, ok := r.properties["PIDs"].([]uint32)
	if !ok {
		return fmt.Errorf("PIDs is %T", r.properties["PIDs"])
	}
	for _, pid := range pids {
		if err := write(dir, procsFile, strconv.Itoa(int(pid))); err != nil {
			return err
		}
	}
	return nil
}

// serve puts the manager on a bus of its own and returns the bus's address.
func (m *manager) serve() string {
	m.t.Helper()
	address := startBus(m.t)
	conn := testkit.Value(godbus.Connect(address))(m.t)
	m.conn = conn
	m.t.Cleanup(func() { conn.Close() })
	must(m.t, conn.Export(m, systemdPath, systemdIface))
	if reply, err := conn.RequestName(systemdName, godbus.NameFlagDoNotQueue); err != nil || reply != godbus.RequestNameReplyPrimaryOwner {
		m.t.Fatalf("%v, %v", reply, err)
	}
	m.t.Cleanup(func() {
		for _, r := range m.asked {
			if err := removeTree(filepath.Join(m.root, r.name)); err != nil {
				m.t.Error(err)
			}
		}
	})
	return address
}

// startBus starts a message bus that accepts every client and lets it own every name.
func startBus(t *testing.T) (address string) {
	t.Helper()
	binary, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skipf("the real bus is needed, Debian's package dbus has it: %v", err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "bus.conf")
	err = os.WriteFile(config, fmt.Appendf(nil, `<busconfig><type>session</type><listen>unix:path=%s/bus</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/><allow user="*"/></policy></busconfig>`, dir), 0o644)
	must(t, err)
	cmd := exec.Command(binary, "--config-file="+config, "--nofork", "--nopidfile", "--print-address")
	stdout := testkit.Value(cmd.StdoutPipe())(t)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	line := testkit.Value(bufio.NewReader(stdout).ReadString('\n'))(t)
	return strings.TrimSpace(line)
}

func newManager(t *testing.T) *manager {
	t.Helper()
	needRoot(t)
	if roots(t)[""] == "" {
		t.Skip("scopes are groups of v2, which is not mounted here")
	}
	return &manager{t: t, root: roots(t)[""], result: "done"}
}

func TestNewScope(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	address := m.serve()
	o := execute(t, plan{Scope: 10 * time.Second}, 0, "", "DBUS_SYSTEM_BUS_ADDRESS="+address)
	if o.Error != "" || len(m.asked) != 1 {
		t.Fatalf("%s; asked %+v", o.Error, m.asked)
	}
	asked := m.asked[0]
	pids, _ := asked.properties["PIDs"].([]uint32)
	if len(pids) != 1 || asked.name != fmt.Sprintf("tacho-%d.scope", pids[0]) || asked.mode != "fail" {
		t.Errorf("asked for %+v", asked)
	}
	if asked.properties["Delegate"] != true || asked.properties["CollectMode"] != "inactive-or-failed" {
		t.Errorf("properties %+v: the scope is to be delegated, and to go away with its processes", asked.properties)
	}
	// The executor sits in a leaf, so that the scope itself is free of processes and can hand on controllers.
	if !strings.Contains(o.Own, "0::/"+asked.name+"/executor\n") || o.Group.V2 != filepath.Join(m.root, asked.name, "task") {
		t.Errorf("the task's place is %s, the executor is in\n%s", o.Group.V2, o.Own)
	}
}

func TestNewScopeUnprivileged(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	m.refuse = "Interactive authentication required."
	address := m.serve()
	dir := filepath.Dir(strings.TrimPrefix(strings.Split(address, ",")[0], "unix:path="))
	must(t, errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)))
	// Others than root ask their own manager, on their own bus.
	o := execute(t, plan{Scope: 10 * time.Second}, nobody, "", "DBUS_SESSION_BUS_ADDRESS="+address)
	if !strings.Contains(o.Error, "start scope: Interactive authentication required.") || len(m.asked) != 1 {
		t.Errorf("%q, asked %d times", o.Error, len(m.asked))
	}
	o = execute(t, plan{Scope: 10 * time.Second}, nobody, "", "XDG_RUNTIME_DIR="+t.TempDir())
	if !strings.Contains(o.Error, "connect to systemd: ") {
		t.Errorf("no bus: %q", o.Error)
	}
}

func TestNewScopeFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		result, refuse, want string
		patience             time.Duration
	}{
		"refused":       {"done", "no such luck", "start scope: no such luck", 10 * time.Second},
		"failed job":    {"failed", "", `start scope: systemd says "failed"`, 10 * time.Second},
		"silent system": {"", "", "start scope: context deadline exceeded", 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t)
			m.result, m.refuse = test.result, test.refuse
			o := execute(t, plan{Scope: test.patience}, 0, "", "DBUS_SYSTEM_BUS_ADDRESS="+m.serve())
			testkit.Equal(t, o.Error, test.want, "result")
		})
	}
}
