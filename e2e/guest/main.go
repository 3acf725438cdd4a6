// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// The command guest runs a static test binary under another Linux kernel and another cgroup
// layout: in QEMU, on a kernel of Debian, in a RAM disk that holds little more than the binary. It
// is made for go test -exec; "guest -h" says how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

const (
	statusUsage   = 2
	statusNothing = 125 // the guest gave no status
)

var errDeadline = errors.New("the guest ran over its deadline")

func main() {
	// The emulator is to end with the thread that started it: this one lives as long as we do.
	runtime.LockOSThread()
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

func command(args []string, stdout, stderr io.Writer) int {
	// SIGQUIT is what go test sends to a test that runs too long.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	if len(args) > 0 && args[0] == "kernels" {
		return kernels(ctx, args[1:], stdout, stderr)
	}
	o, err := parse(args, os.Getenv, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return statusUsage
	}
	log := &console{}
	if o.verbose {
		log.tee = stderr
	}
	status, err := run(ctx, o, log, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "guest %s/%s: %v\n", o.kernel, o.cgroup, err)
		if text := log.String(); text != "" && !o.verbose {
			fmt.Fprintf(stderr, "its console:\n%s\n", text)
		}
		return statusNothing
	}
	return status
}

// kernels fetches kernels and prints where they are.
func kernels(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("guest kernels", flag.ContinueOnError)
	flags.SetOutput(stderr)
	mirror := flags.String("mirror", "", "`URL` of a Debian archive (default: the one in the system's apt sources)")
	if err := flags.Parse(args); err != nil {
		return statusUsage
	}
	if *mirror == "" {
		*mirror = systemMirror(ctx)
	}
	wanted := flags.Args()
	if len(wanted) == 0 {
		wanted = known()
	}
	cache, err := cacheFolder()
	for _, series := range wanted {
		if err != nil {
			break
		}
		var k kernel
		if k, err = fetchKernel(ctx, cache, *mirror, series); err == nil {
			fmt.Fprintf(stdout, "%s\t%s\n", series, k.dir)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "guest kernels:", err)
		return 1
	}
	return 0
}

// run boots the guest, with the fallback from KVM to emulation, and returns the test binary's status.
func run(ctx context.Context, o options, log *console, stdout, stderr io.Writer) (int, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, testTimeout(o.args)+o.grace, errDeadline)
	defer cancel()
	m, err := prepare(ctx, o)
	if err != nil {
		return 0, err
	}
	defer m.close()
	if o.verbose {
		fmt.Fprintf(stderr, "guest: prepared after %v\n", time.Since(start).Round(time.Millisecond))
	}
	r := relay{stdout: stdout, stderr: stderr, outputs: outputs(o.args)}
	err = errBoot
	if o.kvm {
		err = m.run(ctx, kvm(), min(o.boot, 15*time.Second), log, r.receive)
	}
	if !o.kvm || errors.Is(err, errBoot) {
		err = m.run(ctx, tcg(), o.boot, log, r.receive)
	}
	if o.verbose {
		fmt.Fprintf(stderr, "guest: ended after %v\n", time.Since(start).Round(time.Millisecond))
	}
	return r.result.Exit, err
}

// prepare makes all that a guest is started from.
func prepare(ctx context.Context, o options) (m machine, err error) {
	cache, err := cacheFolder()
	if err != nil {
		return m, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return m, err
	}
	m = machine{options: o}
	if m.kernel, err = findKernel(cache, o.kernel); err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if m.initramfs, err = unnamed(cache); err != nil {
		return m, err
	}
	if err = writeInitramfs(ctx, m.initramfs, o, m.kernel, cache, dir); err != nil {
		return m, err
	}
	if o.disk > 0 {
		if m.disk, err = unnamed(cache); err == nil {
			err = m.disk.Truncate(int64(o.disk) << 20)
		}
	}
	return m, err
}

func (m machine) close() {
	m.initramfs.Close()
	m.disk.Close()
}

// unnamed makes a temporary file that goes away with its last descriptor.
func unnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "guest-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}
