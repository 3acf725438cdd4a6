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
func (p *player) step(i int) error {
	step := p.process.Steps[i]
	switch step.Kind {
	case shape.Burn:
		burnThread(step.Time)
		return nil
	case shape.Threads:
		burnThreads(step.Count, step.Time)
		return nil
	case shape.Sleep:
		time.Sleep(step.Time)
		return nil
	case shape.Churn:
		return p.churn(step)
	case shape.Session:
		if _, err := unix.Setsid(); err != nil && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("setsid: %w", err)
		}
		return nil
	case shape.Escape:
		return p.escape()
	case shape.Nest:
		return p.nest()
	case shape.Exec:
		return p.execute(i + 1)
	case shape.Ignore:
		p.ignores = true
		signal.Ignore(unix.SIGCHLD)
		return nil
	case shape.Child:
		return p.child(i, step)
	case shape.Shared:
		return p.share(step)
	case shape.Write, shape.Direct, shape.Store, shape.Sendfile, shape.Copy, shape.Reserve, shape.Overwrite, shape.ReadBack:
		return p.file(i, step)
	}
	return p.hold(step)
}

func (p *player) escape() error {
	if p.outs == "" {
		return nil // this machine has nowhere to go
	}
	return moveInto(p.outs)
}

// nest moves into a group of its own below the task's, in every hierarchy in which the task has one.
func (p *player) nest() error {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	var folders []string
	for line := range strings.Lines(string(data)) {
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
	if len(folders) == 0 {
		return nil // this machine does not let it
	}
	return moveInto(strings.Join(folders, ","))
}

func (p *player) churn(step shape.Step) error {
	for range step.Count {
		child, err := role{self: p.self, burn: step.Time}.start()
		if err != nil {
			return err
		}
		if err := p.wait(child); err != nil {
			return err
		}
	}
	return nil
}

// child starts the process of a step.
func (p *player) child(i int, step shape.Step) error {
	child, err := p.startProcess(shape.Below(p.report.Path, i), false, step.Process.Daemon)
	switch {
	case err != nil:
		return err
	case step.Process.Daemon:
		return p.wait(child) // the one in between
	case step.Wait:
		return p.wait(child)
	}
	p.children = append(p.children, child)
	return nil
}

// share has children that touch the same mapping, and hold it until the main process lets go.
func (p *player) share(step shape.Step) error {
	if err := p.pipes(); err != nil {
		return err
	}
	file, err := memfd(0)
	if err != nil {
		return err
	}
	if err := file.Truncate(step.Size); err != nil {
		return err
	}
	touched, toucher, err := os.Pipe()
	if err != nil {
		return err
	}
	defer touched.Close()
	for range step.Count {
		child, err := role{self: p.self, share: file, shareSize: step.Size, report: toucher, hold: p.letGo}.start()
		if err != nil {
			return err
		}
		p.children = append(p.children, child)
	}
	toucher.Close()
	if _, err := readReports(touched, step.Count); err != nil {
		return err
	}
	p.report.Lasting += step.Size
	p.most(0)
	return file.Close()
}
