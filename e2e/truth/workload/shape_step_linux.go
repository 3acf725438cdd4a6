// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/truth/shape"
)

// step takes one step.
func (p *player) step(i int) {
	switch step := p.process.Steps[i]; step.Kind {
	case shape.Burn:
		burnThread(step.Time)
	case shape.Threads:
		burnThreads(step.Count, step.Time)
	case shape.Sleep:
		time.Sleep(step.Time)
	case shape.Churn:
		for range step.Count {
			p.wait(role{self: p.self, Burn: step.Time}.start())
		}
	case shape.Session:
		if _, err := unix.Setsid(); !errors.Is(err, unix.EPERM) {
			check(os.NewSyscallError("setsid", err))
		}
	case shape.Escape:
		moveInto(p.outs) // empty if this machine has nowhere to go
	case shape.Nest:
		p.nest()
	case shape.Exec:
		p.execute(i + 1)
	case shape.Ignore:
		p.ignores = true
		signal.Ignore(unix.SIGCHLD)
	case shape.Child:
		p.child(i, step)
	case shape.Shared:
		p.share(step)
	case shape.Write, shape.Direct, shape.Store, shape.Sendfile, shape.Copy, shape.Reserve, shape.Overwrite, shape.ReadBack:
		p.file(i, step)
	default:
		p.hold(step)
	}
}

// nest moves into a group of its own below the task's, in every hierarchy in which the task has one.
func (p *player) nest() {
	var folders []string
	for line := range strings.Lines(string(value(os.ReadFile("/proc/self/cgroup")))) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || !strings.Contains(fields[2], "/tacho-") {
			continue
		}
		// Version 2 alone, or beside version 1.
		for _, mount := range []string{cmp.Or(fields[1], "unified"), ""} {
			above := filepath.Join("/sys/fs/cgroup", mount, fields[2])
			folder := filepath.Join(above, fmt.Sprintf("nest-%d", os.Getpid()))
			if err := os.Mkdir(folder, 0o755); err == nil {
				folders = append(folders, folder)
				break
			}
		}
	}
	moveInto(strings.Join(folders, ",")) // none if this machine does not let it
}

// child starts the process of a step.
func (p *player) child(i int, step shape.Step) {
	child := p.startProcess(shape.Below(p.report.Path, i), false, step.Process.Daemon)
	if step.Process.Daemon || step.Wait { // of a daemon, the one in between
		p.wait(child)
		return
	}
	p.children = append(p.children, child)
}

// share has children that touch the same mapping, and hold it until the main process lets go.
func (p *player) share(step shape.Step) {
	p.pipes()
	file := memfd(0)
	check(file.Truncate(step.Size))
	touched, toucher := pipe()
	for range step.Count {
		child := role{self: p.self, share: file, ShareSize: step.Size, report: toucher, hold: p.letGo}.start()
		p.children = append(p.children, child)
	}
	check(toucher.Close())
	readReports(touched, step.Count)
	p.report.Lasting += step.Size
	p.most(0)
	check(errors.Join(touched.Close(), file.Close()))
}
