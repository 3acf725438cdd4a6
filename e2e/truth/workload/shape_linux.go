// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/truth/shape"
)

// Descriptors of the processes of a shape: where they say that they are done, and what they hold on to.
const (
	doneFD = 3 + iota
	letGoFD
)

// player plays one process of a shape.
type player struct {
	shape   shape.Shape
	process shape.Process
	dir     string
	// outs are the cgroups beside the task's.
	outs string
	// self is the program: a process without its main thread cannot find it.
	self string
	// began is when the main process began, on the monotonic clock.
	began  time.Duration
	report shape.Report

	// done is written to, and letGo read from. The main process has the other ends.
	done, letGo   *os.File
	dones, goings *os.File
	children      []*os.Process
	ignores       bool
	// kept are descriptors that are held to the end.
	kept []*os.File
}

// playShape plays a process of a shape, from one of its steps on.
func playShape(args []string) error {
	// The main goroutine has to run on the main thread, which a step may end.
	runtime.LockOSThread()
	p := &player{}
	var err error
	if p.self, err = os.Executable(); err != nil {
		return err
	}
	if unix.Gettid() != os.Getpid() { // whatever thread executes a program becomes the main one
		return unix.Exec(p.self, os.Args, os.Environ())
	}
	flags := newFlags("shape")
	seed := flags.Uint64("seed", 1, "play the shape of this `number`")
	shrink := flags.Int64("shrink", 1, "divide all sizes by this `number`")
	flags.StringVar(&p.report.Path, "path", "", "play the process at this `path`")
	from := flags.Int("from", 0, "begin with this `step`")
	daemonize := flags.Bool("daemonize", false, "play in a child in a session of its own, and exit")
	flags.StringVar(&p.dir, "dir", ".", "`folder` for files")
	flags.StringVar(&p.outs, "out", "", "cgroup `folders` to escape to")
	join := flags.String("join", "", "cgroup `folders` to move into first")
	flags.DurationVar(&p.began, "began", 0, "")
	carried := flags.String("carried", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p.shape = shape.New(*seed, *shrink)
	if p.process, err = p.shape.Find(p.report.Path); err != nil {
		return err
	}
	p.done, p.letGo = os.NewFile(doneFD, "done"), os.NewFile(letGoFD, "letGo")
	switch {
	case *daemonize:
		_, err := p.startProcess(p.report.Path, true, false)
		return err
	case *carried != "":
		err = json.Unmarshal([]byte(*carried), &p.report)
	case p.isMain():
		err = p.enter(*join)
	}
	if err != nil {
		return err
	}
	return p.play(*from)
}

func (p *player) isMain() bool { return p.report.Path == "" }

// enter begins the main process: it moves into cgroups that count beside the task's.
func (p *player) enter(join string) error {
	w := &workload{}
	if err := w.enter(""); err != nil {
		return err
	}
	offset, err := meterOffset(w.truth.Cgroups)
	if err != nil {
		return err
	}
	if offset != nil {
		p.report.Offset = *offset
	}
	if p.report.Brought, err = anon(os.Getpid()); err != nil {
		return err
	}
	p.report.Before = clock(unix.CLOCK_PROCESS_CPUTIME_ID)
	if err := moveInto(join); err != nil {
		return err
	}
	p.report.Moving = clock(unix.CLOCK_PROCESS_CPUTIME_ID) - p.report.Before
	p.began = clock(unix.CLOCK_MONOTONIC)
	return nil
}

// moveInto moves the process into cgroups, of several hierarchies.
func moveInto(folders string) error {
	for folder := range strings.FieldsFuncSeq(folders, func(r rune) bool { return r == ',' }) {
		if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("move into cgroup: %w", err)
		}
	}
	return nil
}

func (p *player) play(from int) error {
	for i := from; i < len(p.process.Steps); i++ {
		if p.process.Steps[i].Kind != shape.Leaderless {
			if err := p.step(i); err != nil {
				return fmt.Errorf("seed %d, process %q, step %d: %w", p.shape.Seed, p.report.Path, i, err)
			}
			continue
		}
		if unix.Gettid() != os.Getpid() {
			return errors.New("not on the main thread")
		}
		go func() {
			if err := p.play(i + 1); err != nil {
				fmt.Fprintln(os.Stderr, "workload:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}()
		// Ends this thread only, as pthread_exit(3) does in main.
		_, _, err := unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
		return err
	}
	return p.finish()
}

// finish says what was done, and stays where the process is to hold.
func (p *player) finish() error {
	if p.isMain() {
		return p.finishMain()
	}
	p.report.Done = p.process.Holds
	if err := p.say(); err != nil {
		return err
	}
	if _, err := p.done.Write([]byte{1}); err != nil && !errors.Is(err, unix.EPIPE) {
		return fmt.Errorf("say that all is done: %w", err)
	}
	if p.process.Holds {
		if _, err := io.Copy(io.Discard, p.letGo); err != nil {
			return err
		}
	}
	if p.process.Lingers {
		time.Sleep(20 * time.Second)
	}
	return nil
}

// finishMain holds until all others are done, and for the time of the hold.
func (p *player) finishMain() error {
	if p.shape.Hold > 0 {
		if err := p.pipes(); err != nil {
			return err
		}
		if err := p.dones.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
			return err
		}
		if _, err := io.ReadFull(p.dones, make([]byte, p.shape.Processes()-1)); err != nil {
			return fmt.Errorf("wait for the processes of the shape: %w", err)
		}
		p.report.Done = true
		p.report.HeldFrom = clock(unix.CLOCK_MONOTONIC)
		time.Sleep(p.shape.Hold)
		p.report.HeldTo = clock(unix.CLOCK_MONOTONIC)
	}
	if p.goings != nil {
		p.goings.Close()
	}
	if p.shape.Reaps {
		if err := p.wait(p.children...); err != nil {
			return err
		}
	}
	p.report.Inner = clock(unix.CLOCK_MONOTONIC) - p.began
	return p.say()
}

// say writes the report to stdout, in one piece.
func (p *player) say() error {
	p.report.CPU = clock(unix.CLOCK_PROCESS_CPUTIME_ID)
	data, err := json.Marshal(p.report)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(data, '\n'))
	return err
}

// pipes makes the pipes between the main process and all others, before the first of them.
func (p *player) pipes() error {
	if !p.isMain() || p.dones != nil {
		return nil
	}
	var err error
	if p.dones, p.done, err = os.Pipe(); err != nil {
		return err
	}
	p.letGo, p.goings, err = os.Pipe()
	return err
}

// startProcess starts the process at a path.
func (p *player) startProcess(path string, session, daemonize bool) (*os.Process, error) {
	if err := p.pipes(); err != nil {
		return nil, err
	}
	child, err := os.StartProcess(p.self, p.args(path, "-daemonize="+strconv.FormatBool(daemonize)), &os.ProcAttr{
		Files: append(standard(), p.done, p.letGo), Sys: &unix.SysProcAttr{Setsid: session},
	})
	if err != nil {
		return nil, fmt.Errorf("start process %s: %w", path, err)
	}
	return child, nil
}

func (p *player) args(path string, more ...string) []string {
	return append([]string{
		"workload", "shape", fmt.Sprintf("-seed=%d", p.shape.Seed), fmt.Sprintf("-shrink=%d", p.shape.Shrink),
		"-path=" + path, "-dir=" + p.dir, "-out=" + p.outs,
	}, more...)
}

// execute goes on with a step in a new image of the program.
func (p *player) execute(step int) error {
	carried, err := json.Marshal(p.report)
	if err != nil {
		return err
	}
	return unix.Exec(p.self, p.args(p.report.Path,
		"-from="+strconv.Itoa(step), "-began="+p.began.String(), "-carried="+string(carried)), os.Environ())
}

// wait waits for children. Where the kernel reaps them, their end is all that is known.
func (p *player) wait(children ...*os.Process) error {
	for _, child := range children {
		if err := wait(child); err != nil && !(p.ignores && errors.Is(err, unix.ECHILD)) {
			return err
		}
	}
	return nil
}
