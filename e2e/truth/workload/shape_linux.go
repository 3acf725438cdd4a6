// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
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
func playShape(args []string) {
	// The main goroutine has to run on the main thread, which a step may end.
	runtime.LockOSThread()
	p := &player{self: value(os.Executable())}
	if unix.Gettid() != os.Getpid() { // whatever thread executes a program becomes the main one
		check(unix.Exec(p.self, os.Args, os.Environ()))
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
	check(flags.Parse(args))
	p.shape = shape.New(*seed, *shrink)
	p.process = value(p.shape.Find(p.report.Path))
	p.done, p.letGo = os.NewFile(doneFD, "done"), os.NewFile(letGoFD, "letGo")
	switch {
	case *daemonize:
		p.startProcess(p.report.Path, true, false)
		return
	case *carried != "":
		check(json.Unmarshal([]byte(*carried), &p.report))
	case p.isMain():
		p.enter(*join)
	}
	p.play(*from)
}

func (p *player) isMain() bool { return p.report.Path == "" }

// enter begins the main process: it moves into cgroups that count beside the task's.
func (p *player) enter(join string) {
	w := &workload{}
	w.enter("")
	if offset := meterOffset(w.truth.Cgroups); offset != nil {
		p.report.Offset = *offset
	}
	p.report.Brought = anon(os.Getpid())
	p.report.Before = clock(unix.CLOCK_PROCESS_CPUTIME_ID)
	moveInto(join)
	p.report.Moving = clock(unix.CLOCK_PROCESS_CPUTIME_ID) - p.report.Before
	p.began = clock(unix.CLOCK_MONOTONIC)
}

func (p *player) play(from int) {
	step := from
	defer func() {
		if failed := recover(); failed != nil {
			fmt.Fprintf(os.Stderr, "seed %d, process %q, step %d: ", p.shape.Seed, p.report.Path, step)
			panic(failed)
		}
	}()
	for ; step < len(p.process.Steps); step++ {
		if p.process.Steps[step].Kind != shape.Leaderless {
			p.step(step)
			continue
		}
		if unix.Gettid() != os.Getpid() {
			check(errors.New("not on the main thread"))
		}
		go func() {
			defer exitIfFailed()
			p.play(step + 1)
			os.Exit(0)
		}()
		// Ends this thread only, as pthread_exit(3) does in main.
		_, _, err := unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
		check(err)
	}
	p.finish()
}

// finish says what was done, and stays where the process is to hold.
func (p *player) finish() {
	if p.isMain() {
		p.finishMain()
		return
	}
	p.report.Done = p.process.Holds
	p.say()
	if _, err := p.done.Write([]byte{1}); !errors.Is(err, unix.EPIPE) {
		check(err)
	}
	if p.process.Holds {
		value(io.Copy(io.Discard, p.letGo))
	}
	if p.process.Lingers {
		time.Sleep(20 * time.Second)
	}
}

// finishMain holds until all others are done, and for the time of the hold.
func (p *player) finishMain() {
	if p.shape.Hold > 0 {
		p.pipes()
		check(p.dones.SetReadDeadline(time.Now().Add(3 * time.Minute)))
		value(io.ReadFull(p.dones, make([]byte, p.shape.Processes()-1)))
		p.report.Done = true
		p.report.HeldFrom = clock(unix.CLOCK_MONOTONIC)
		time.Sleep(p.shape.Hold)
		p.report.HeldTo = clock(unix.CLOCK_MONOTONIC)
	}
	if p.goings != nil {
		p.goings.Close()
	}
	if p.shape.Reaps {
		p.wait(p.children...)
	}
	p.report.Inner = clock(unix.CLOCK_MONOTONIC) - p.began
	p.say()
}

// say writes the report to stdout, in one piece.
func (p *player) say() {
	p.report.CPU = clock(unix.CLOCK_PROCESS_CPUTIME_ID)
	value(os.Stdout.Write(append(value(json.Marshal(p.report)), '\n')))
}

// pipes makes the pipes between the main process and all others, before the first of them.
func (p *player) pipes() {
	if p.isMain() && p.dones == nil {
		p.dones, p.done = pipe()
		p.letGo, p.goings = pipe()
	}
}

// startProcess starts the process at a path.
func (p *player) startProcess(path string, session, daemonize bool) *os.Process {
	p.pipes()
	return value(os.StartProcess(p.self, p.args(path, "-daemonize="+strconv.FormatBool(daemonize)), &os.ProcAttr{
		Files: append(standard(), p.done, p.letGo), Sys: &unix.SysProcAttr{Setsid: session},
	}))
}

func (p *player) args(path string, more ...string) []string {
	return append([]string{
		"workload", "shape", fmt.Sprintf("-seed=%d", p.shape.Seed), fmt.Sprintf("-shrink=%d", p.shape.Shrink),
		"-path=" + path, "-dir=" + p.dir, "-out=" + p.outs,
	}, more...)
}

// execute goes on with a step in a new image of the program.
func (p *player) execute(step int) {
	carried := value(json.Marshal(p.report))
	check(unix.Exec(p.self, p.args(p.report.Path,
		"-from="+strconv.Itoa(step), "-began="+p.began.String(), "-carried="+string(carried)), os.Environ()))
}

// wait waits for children. Where the kernel reaps them, their end is all that is known.
func (p *player) wait(children ...*os.Process) {
	for _, child := range children {
		if err := waitForOne(child); !p.ignores || !errors.Is(err, unix.ECHILD) {
			check(err)
		}
	}
}
