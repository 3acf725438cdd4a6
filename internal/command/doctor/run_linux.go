// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
)

// runLimit is how long a task may take that only prints a version.
const runLimit = 30 * time.Second

// checkRun runs this program as a task, which finds what no other check knows of.
func checkRun() Check {
	if err := tryRun(); err != nil {
		return works(nameOfRun, "").missing(err.Error(), "everything: no task is started", "")
	}
	return works(nameOfRun, "a task was started, and its end recorded")
}

// tryRun starts a task as tacho run does, without a cgroup, which others check.
func tryRun() error {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	id := fmt.Sprintf("doctor-%d", os.Getpid())
	dir, err := client.FindRuntimeDir("", len(id), client.CheckRoom)
	if err != nil {
		return err
	}
	const self = "/proc/self/exe" // valid even after an upgrade has replaced the file
	c, err := client.Start(ctx, client.Options{RuntimeDir: dir, ID: id})
	if err != nil {
		return err
	}
	_, err = c.Launch(ctx, &proto.LaunchRequest{
		Id: id, Command: self, Argv0: "tacho", Args: []string{"version"},
		Stdio:        &proto.Stdio{Mode: proto.Stdio_MODE_NULL},
		Cgroup:       &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_NONE},
		ExitWithTask: true, // else it stays if this process is killed meanwhile
	})
	if err != nil {
		return errors.Join(err, c.Abandon())
	}
	exit, _, err := c.Wait(ctx)
	if err == nil && exit.GetCode() != 0 {
		err = fmt.Errorf("%s version: %s", self, exit.GetSummary())
	}
	return errors.Join(err, c.Close())
}
