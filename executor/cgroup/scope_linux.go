// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/tachograph/tacho/procstats/kernel"
)

// errNoSystemd is returned where systemd does not manage the cgroups.
var errNoSystemd = errors.New("systemd is not the cgroup manager here")

// scope is a systemd scope with the controllers delegated: the executor sits in one leaf, the task in the other.
type scope struct {
	parent, executor, task string
}

// enterScope asks systemd for a scope around this process.
func enterScope(o Options) (scope, error) {
	if !systemdRuns() {
		return scope{}, errNoSystemd
	}
	// systemd answers in milliseconds; a bus that hangs must not hold up the task.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return newScope(ctx, o)
}

// newScope makes a scope with this process in it.
func newScope(ctx context.Context, o Options) (scope, error) {
	bus, err := connectSystemd(ctx)
	if err != nil {
		return scope{}, fmt.Errorf("connect to systemd: %w", inTime(ctx, err))
	}
	defer bus.Close()
	properties := []dbus.Property{
		dbus.PropDescription("tacho task " + o.ID),
		dbus.PropPids(uint32(os.Getpid())),
		{Name: "Delegate", Value: godbus.MakeVariant(true)},
		{Name: "CollectMode", Value: godbus.MakeVariant("inactive-or-failed")},
	}
	done := make(chan string, 1)
	if _, err := bus.StartTransientUnitContext(ctx, "tacho-"+o.ID+".scope", "fail", properties, done); err != nil {
		return scope{}, fmt.Errorf("start scope: %w", inTime(ctx, err))
	}
	select {
	case result := <-done:
		if result != "done" {
			return scope{}, fmt.Errorf("start scope: systemd says %q", result)
		}
	case <-ctx.Done():
		return scope{}, fmt.Errorf("start scope: %w", ctx.Err())
	}
	return splitScope(o)
}

// inTime returns the error of a call on the bus, or that the time is up, which explains any other error.
func inTime(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// splitScope moves this process into a leaf of its new scope: only a group without processes of its own can delegate
// controllers to its children.
func splitScope(o Options) (scope, error) {
	here, err := kernel.FindCgroup(o.FS, os.Getpid())
	if err != nil {
		return scope{}, fmt.Errorf("find own scope: %w", err)
	}
	s := scope{parent: here.V2, executor: filepath.Join(here.V2, "executor"), task: "task"}
	if err := os.Mkdir(s.executor, 0o755); err != nil {
		return scope{}, fmt.Errorf("create cgroup: %w", err)
	}
	return s, write(s.executor, "cgroup.procs", strconv.Itoa(os.Getpid()))
}

// connectSystemd connects to the manager of our groups: the system's for root, the user's own for others; over the
// bus, or directly without one. It starts nothing, not even a bus.
func connectSystemd(ctx context.Context) (*dbus.Conn, error) {
	bus, direct := godbus.SystemBusPrivate, "/run/systemd/private"
	if os.Geteuid() != 0 {
		bus = godbus.SessionBusPrivateNoAutoStartup
		direct = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "systemd/private")
	}
	conn, err := dbus.NewConnection(func() (*godbus.Conn, error) {
		conn, err := authenticated(bus(godbus.WithContext(ctx)))
		if err != nil {
			return nil, err
		}
		if err := conn.Hello(); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	})
	if err == nil {
		return conn, nil
	}
	conn, errDirect := dbus.NewConnection(func() (*godbus.Conn, error) {
		return authenticated(godbus.Dial("unix:path="+direct, godbus.WithContext(ctx)))
	})
	if errDirect != nil {
		return nil, err
	}
	return conn, nil
}

// authenticated authenticates by the socket's credentials; the number requires no look-up of names.
func authenticated(conn *godbus.Conn, err error) (*godbus.Conn, error) {
	if err != nil {
		return nil, err
	}
	if err := conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}
