// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// The command init is the first process of a guest: it makes a small Linux system out of the RAM
// disk it finds itself in, runs the test binary of the plan and says how that ended.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/guest/plan"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: this is the first process of a guest")
		os.Exit(2)
	}
	if err := boot(); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err) // the console
	}
	unix.Sync()
	err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	fmt.Fprintln(os.Stderr, "init: power off:", err)
}

// boot sets the system up, runs the plan and reports over the port, errors included. It returns
// the errors that have no port to go to.
func boot() error {
	p, err := readPlan()
	if err != nil {
		return err
	}
	// The port needs its drivers, and these need /proc, /sys and /dev.
	err = errors.Join(mountKernel(), loadModules(p.Modules))
	if err != nil {
		return err
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	defer port.Close()
	out := &messages{encoder: json.NewEncoder(port)}
	result, err := runPlan(p, out)
	if err != nil {
		result = plan.Result{Error: err.Error()}
	}
	return out.send(plan.Message{Result: &result})
}

func readPlan() (plan.Plan, error) {
	var p plan.Plan
	text, err := os.ReadFile(plan.Path)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("read %s: %w", plan.Path, err)
	}
	return p, nil
}

func runPlan(p plan.Plan, out *messages) (plan.Result, error) {
	user, err := setUp(p)
	if err != nil {
		return plan.Result{}, err
	}
	result, err := runTest(p, user, out)
	if err != nil {
		return plan.Result{}, err
	}
	return result, sendOutputs(p.Outputs, out)
}
