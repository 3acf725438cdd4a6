// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// The command init is the first process of a guest: it makes a small Linux system out of the RAM
// disk it finds itself in, runs the test binary of the plan and says how that ended.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/guest/plan"
)

// farewell is how long the host may take to read what was sent.
const farewell = 20 * time.Second

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: this is the first process of a guest")
		os.Exit(2)
	}
	if err := boot(); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err) // the console
	} else {
		// The host ends the machine when it has read the result; a guest that powers off first can take what is still
		// under way with it.
		time.Sleep(farewell)
	}
	unix.Sync()
	err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	fmt.Fprintln(os.Stderr, "init: power off:", err)
}

// boot carries the plan out and reports over the port, errors included. It returns the errors that
// have no port to go to.
func boot() error {
	var p plan.Plan
	text, err := os.ReadFile(plan.Path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("read %s: %w", plan.Path, err)
	}
	if err := errors.Join(mountSystem(), loadModules(p.Modules)); err != nil {
		return err
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	out := &messages{encoder: json.NewEncoder(port)}
	if err := carryOut(p, out); err != nil {
		return errors.Join(out.send(plan.Message{Result: &plan.Result{Error: err.Error()}}), port.Close())
	}
	return port.Close()
}

func carryOut(p plan.Plan, out *messages) error {
	user, err := setUp(p)
	if err != nil {
		return err
	}
	for _, test := range p.Tests {
		result, err := carryOutTest(p.Env, test, user, out)
		if err == nil {
			err = out.send(plan.Message{Result: &result})
		}
		if err == nil {
			err = empty(os.TempDir()) // which is memory
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	return err
}

func carryOutTest(env []string, test plan.Test, user account, out *messages) (plan.Result, error) {
	result, err := runTest(env, test, user, out)
	if err != nil {
		return plan.Result{}, err
	}
	for _, file := range test.Outputs {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) { // the test binary ended before
			continue
		}
		if err == nil {
			err = out.send(plan.Message{File: &plan.File{Path: file, Data: data}})
		}
		if err != nil {
			return plan.Result{}, err
		}
	}
	return result, nil
}

// openPort opens the port to the host. Its driver first asks the host which ports there are.
func openPort() (*os.File, error) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		port, err := openBlocking(plan.Port)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			return port, err
		}
	}
}

// openBlocking opens a device so that a write returns when the host has taken all of it. os.OpenFile would make it
// non-blocking, and its driver then drops what does not fit.
func openBlocking(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// messages sends to the host. It may be used by several goroutines.
type messages struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

func (m *messages) send(message plan.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.encoder.Encode(message)
}

// Write sends output of the test binary. It implements io.Writer.
func (m *messages) Write(p []byte) (int, error) {
	if err := m.send(plan.Message{Output: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}
