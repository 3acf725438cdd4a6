// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"
)

// suiteRun is a run of guests of the table.
type suiteRun struct {
	root    string // of the repository
	timeout time.Duration
	verbose bool
	twice   bool
	results string
	stdout  io.Writer
	mu      sync.Mutex // of stdout, the results and failed
	failed  bool
}

// transcript is what a test binary printed, and when it did for the first and the last time.
type transcript struct {
	bytes.Buffer
	first, last time.Time
}

// Write implements io.Writer.
func (t *transcript) Write(p []byte) (int, error) {
	t.last = time.Now()
	if t.first.IsZero() {
		t.first = t.last
	}
	return t.Buffer.Write(p)
}

// runSuites runs the table's guests, those lines whose name matches an expression, as many at a time as there are CPUs:
// with one more, times come late.
func runSuites(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	r := suiteRun{stdout: stdout}
	flags := flag.NewFlagSet("guest suites", flag.ContinueOnError)
	flags.SetOutput(stderr)
	ci := flags.Bool("ci", false, "leave out what runs nightly")
	jobs := flags.Int("jobs", runtime.NumCPU(), "`number` of guests at a time")
	flags.DurationVar(&r.timeout, "timeout", 10*time.Minute, "longest `time` of a package's tests")
	flags.BoolVar(&r.verbose, "v", false, "print what the tests print")
	flags.BoolVar(&r.twice, "twice", false, "retry a package that fails, in a guest of its own")
	flags.StringVar(&r.results, "results", "", "add the result of each test to `FILE`")
	if err := flags.Parse(args); err != nil {
		return statusUsage
	}
	todo, err := choose(rows(), flags.Arg(0), *ci)
	if err == nil {
		r.root, err = os.Getwd()
	}
	if err == nil {
		err = r.build(ctx, todo)
	}
	if err == nil {
		err = fetchKernels(ctx, nil, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "guest suites:", err)
		return 1
	}
	began := time.Now()
	queue := make(chan row)
	var workers sync.WaitGroup
	for range *jobs {
		workers.Go(func() {
			runtime.LockOSThread() // an emulator ends with the thread that started it
			for one := range queue {
				r.row(ctx, one)
			}
		})
	}
	for _, one := range todo {
		queue <- one
	}
	close(queue)
	workers.Wait()
	fmt.Fprintf(stdout, "== %d guests in %.0f s\n", len(todo), time.Since(began).Seconds())
	if r.failed {
		return 1
	}
	return 0
}

// choose returns the rows with those suites whose name matches the expression.
func choose(all []row, expression string, ci bool) ([]row, error) {
	match, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	var chosen []row
	for _, one := range all {
		one.suites = slices.DeleteFunc(one.suites, func(s suite) bool { return !match.MatchString(one.name(s)) })
		if len(one.suites) > 0 && !(ci && one.nightly) {
			chosen = append(chosen, one)
		}
	}
	return chosen, nil
}

// build makes what runs in the guests.
func (r *suiteRun) build(ctx context.Context, todo []row) error {
	packages := map[string][]string{}
	for _, one := range todo {
		o, err := parseFlags(one.guest, r.stdout)
		if err != nil {
			return err
		}
		for _, s := range one.suites {
			if !slices.Contains(packages[o.arch], s.pkg) {
				packages[o.arch] = append(packages[o.arch], s.pkg)
			}
		}
	}
	for arch, tests := range packages {
		dir := r.binaries(arch)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, args := range [][]string{
			{"build", "-trimpath", "-ldflags=-s -w", "-o", dir + "/tacho", "."},
			{"build", "-o", dir + "/workload", "./e2e/truth/workload"},
			append([]string{"test", "-c", "-ldflags=-s -w", "-o", dir + "/"}, tests...),
		} {
			cmd := exec.CommandContext(ctx, "go", args...)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
			if text, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("go %s: %w\n%s", args, err, text)
			}
		}
	}
	return nil
}

func (r *suiteRun) binaries(arch string) string { return filepath.Join(r.root, "bin", "test", arch) }

// row runs the tests of a guest, and once more those that failed, each in a guest of its own, if that is asked for.
func (r *suiteRun) row(ctx context.Context, one row) {
	place, logs, failed := r.boot(ctx, one)
	for i, s := range one.suites {
		log, again := logs[i], failed[i]
		if failed[i] && r.twice && ctx.Err() == nil {
			r.retrying(one.name(s), log)
			var second []*transcript
			var result []bool
			place, second, result = r.boot(ctx, row{guest: one.guest, suites: []suite{s}})
			log, again = second[0], result[0]
		}
		r.report(one.name(s), place, s.pkg, log, again)
	}
}

// boot runs the tests of one guest. It returns what each printed, and which failed.
func (r *suiteRun) boot(ctx context.Context, one row) (place string, logs []*transcript, failed []bool) {
	args := slices.Clone(one.guest)
	for _, s := range one.suites {
		logs = append(logs, &transcript{})
		args = append(args, needs(s.pkg, r.root)...)
	}
	failed = make([]bool, len(logs))
	o, err := parseFlags(args, logs[0])
	place = o.place()
	dir := r.binaries(o.arch)
	o.files = append(o.files, mount{dir + "/tacho", "/bin/tacho"}, mount{dir + "/workload", "/bin/workload"})
	o.env = []string{"TACHO_BIN=/bin/tacho", "TACHO_WORKLOAD=/bin/workload"}
	var stdout []io.Writer
	for i, s := range one.suites {
		test := []string{"-test.v", "-test.timeout=" + r.timeout.String()}
		for _, f := range s.flags {
			test = append(test, "-test."+f[1:])
		}
		o.tests = append(o.tests, newTest(filepath.Join(dir, path.Base(s.pkg)+".test"), filepath.Join(r.root, s.pkg), test))
		stdout = append(stdout, logs[i])
	}
	var statuses []int
	log := &console{}
	if err == nil {
		statuses, err = run(ctx, o, log, stdout, io.Discard)
	}
	for i := range failed {
		failed[i] = i >= len(statuses) || statuses[i] != 0
		if i == len(statuses) {
			fmt.Fprintf(logs[i], "guest %s: %v\nconsole of the guest:\n%s\n", place, err, log)
		}
	}
	return place, logs, failed
}

func (r *suiteRun) retrying(name string, log *transcript) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.stdout, "== retry: %s\n%s", name, log)
	if file := os.Getenv("RETRIES"); file != "" {
		cmd := exec.Command(filepath.Join(r.root, "e2e/guest/failures"), name)
		cmd.Stdin = bytes.NewReader(log.Bytes())
		rows, err := cmd.Output()
		if err == nil {
			err = appendTo(file, rows)
		}
		if err != nil {
			fmt.Fprintln(r.stdout, "note:", err)
		}
	}
}

func (r *suiteRun) report(name, place, pkg string, log *transcript, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	verdict := "ok  "
	if failed {
		verdict, r.failed = "FAIL", true
	}
	fmt.Fprintf(r.stdout, "%s %6.1f s  %s\n", verdict, log.last.Sub(log.first).Seconds(), name)
	if failed || r.verbose {
		fmt.Fprintf(r.stdout, "%s\n", log)
	}
	if r.results == "" {
		return
	}
	if err := appendTo(r.results, encode(readTests(log.String(), place, path.Clean(pkg)))); err != nil {
		fmt.Fprintln(r.stdout, "guest suites:", err)
		r.failed = true
	}
}

func appendTo(file string, data []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
