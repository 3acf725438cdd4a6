// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestMain(m *testing.M) {
	if work := os.Getenv(workVariable); work != "" {
		os.Exit(doWork(work))
	}
	os.Exit(rig.Main(m))
}

const deadline = 20 * time.Second

// place is where executors run, from a binary that is on the disk.
func place(t *testing.T) *rig.Place {
	t.Helper()
	rig.Require(t)
	// Pages of a file that was just written are dirty, and count as memory of each process that maps them.
	binary := testkit.Value(os.Open(rig.Tacho()))(t)
	testkit.Must(t, errors.Join(binary.Sync(), binary.Close()))
	return rig.NewPlace(t, rig.Self())
}

// executor is an executor with a task.
type executor struct{ *client.Client }

// pid is the executor's own.
func (e *executor) pid() int { return e.Address().Executor.PID }

// run starts an executor with a task that runs a shell script, samples nothing, and ends with the test.
func run(t *testing.T, p *rig.Place, name, script string, changes ...func(*proto.LaunchRequest)) *executor {
	t.Helper()
	id := fmt.Sprintf("cost-%d-%s", os.Getpid(), name)
	c, err := client.Start(t.Context(), client.Options{Binary: rig.Tacho(), RuntimeDir: p.Path("run"), ID: id})
	testkit.Must(t, err)
	e := &executor{c}
	launched := false
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		var err error
		if launched {
			err = e.Stop(ctx, 9, 0)
		}
		testkit.NoError(t, errors.Join(err, e.Shutdown(ctx), e.Close()))
	})
	request := &proto.LaunchRequest{
		Id: id, Command: "/bin/sh", Args: []string{"-c", script}, Env: p.Env(), Dir: p.Dir,
		Cgroup: &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_AUTO}, Record: &proto.RecordOptions{},
	}
	for _, change := range changes {
		change(request)
	}
	if _, err := e.Launch(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	launched = true
	return e
}

// leave gives up the connection to an executor for the time of the test.
func (e *executor) leave(t *testing.T) {
	t.Helper()
	address := e.Address()
	testkit.Must(t, e.Close())
	t.Cleanup(func() {
		again := testkit.Value(client.Reattach(context.Background(), address, nil))(t)
		e.Client = again
	})
}

// numbers returns the numbers after keys such as "Pss:" in a file of lines.
func numbers(path string) (map[string]int, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all := map[string]int{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		key, rest, _ := strings.Cut(lines.Text(), ":")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		if n, err := strconv.Atoi(fields[0]); err == nil {
			all[key] = n
		}
	}
	return all, lines.Err()
}

// procNumbers is numbers of a file of a process that lives.
func procNumbers(t *testing.T, pid int, file string) map[string]int {
	t.Helper()
	all := testkit.Value(numbers(fmt.Sprintf("/proc/%d/%s", pid, file)))(t)
	return all
}

// switches returns how often the threads of a process were put on a CPU, by thread.
func switches(t *testing.T, pid int) map[string]int {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(paths) == 0 {
		t.Fatalf("threads of %d: %v, %v", pid, paths, err)
	}
	all := map[string]int{}
	for _, path := range paths {
		status, err := numbers(path)
		if err != nil {
			continue // the thread has ended
		}
		all[filepath.Base(filepath.Dir(path))] = status["voluntary_ctxt_switches"] + status["nonvoluntary_ctxt_switches"]
	}
	return all
}
