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
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
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
	// SIGQUIT is what go test sends to a test that runs too long.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	status := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		var err error
		switch args[0] {
		case "kernels":
			err = fetchKernels(ctx, args[1:], stdout, stderr)
		case "suites":
			return runSuites(ctx, args[1:], stdout, stderr)
		case "record":
			err = recordHost(args[1:], os.Stdin, stdout, stderr)
		case "table":
			err = printTable(args[1:], stdout, stderr)
		default:
			return single(ctx, args, stdout, stderr)
		}
		if err != nil {
			fmt.Fprintf(stderr, "guest %s: %v\n", args[0], err)
			return 1
		}
		return 0
	}
	return single(ctx, args, stdout, stderr)
}

// single runs one test binary in a guest.
func single(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, os.Getenv, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return statusUsage
	}
	log := &console{}
	statuses, err := run(ctx, o, log, []io.Writer{stdout}, stderr)
	status := statusNothing
	if err == nil {
		status = statuses[0]
	} else {
		fmt.Fprintf(stderr, "guest %s/%s/%s: %v\n", o.kernel, o.arch, o.cgroup, err)
	}
	if text := log.String(); text != "" && (o.verbose || err != nil) {
		fmt.Fprintf(stderr, "console of the guest:\n%s\n", text)
	}
	return status
}

// fetchKernels fetches the kernels that are named as SERIES or SERIES/ARCH, otherwise all that the tests use, and prints
// where they are.
func fetchKernels(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("guest kernels", flag.ContinueOnError)
	flags.SetOutput(stderr)
	archive := flags.String("archive", "", "`URL` of a Debian archive instead of the one that apt uses here")
	if err := flags.Parse(args); err != nil {
		return err
	}
	names := flags.Args()
	if len(names) == 0 {
		for _, s := range allSeries() {
			names = append(names, s.name)
		}
		names = append(names, "6.12/arm64")
	}
	cache, err := cacheFolder()
	if err == nil && *archive == "" {
		*archive, err = systemArchive(ctx)
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		name, arch, _ := strings.Cut(name, "/")
		if arch == "" {
			arch = "amd64"
		}
		k, err := fetchKernel(ctx, cache, *archive, name, arch)
		if err == nil && arch != runtime.GOARCH {
			err = fetchPrograms(ctx, cache, *archive, arch)
		}
		if err != nil {
			return fmt.Errorf("kernel %s/%s: %w", name, arch, err)
		}
		fmt.Fprintf(stdout, "%s/%s\t%s\n", name, arch, k)
	}
	return nil
}

// run boots the guest, by emulation where KVM is not asked for or does not come up, and returns the
// status of each test binary, which writes to the stdout of the same place. With an error it may be fewer.
func run(ctx context.Context, o options, log *console, stdout []io.Writer, stderr io.Writer) ([]int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout()+o.grace, errDeadline)
	defer cancel()
	m, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	defer m.initramfs.Close()
	defer m.disk.Close()
	m.console = log
	started := false
	r := relay{stdout: stdout, stderr: stderr, started: func() { started = true }}
	for _, t := range o.tests {
		r.outputs = append(r.outputs, t.outputs...)
	}
	if o.kvm {
		statuses, err := m.run(ctx, kvm(), min(o.boot, 15*time.Second), r)
		if err == nil || started || ctx.Err() != nil {
			return statuses, err
		}
		fmt.Fprintf(log, "\nKVM: %v\n", err)
	}
	return m.run(ctx, o.processor().emulated, o.boot, r)
}

// prepare makes all that a guest is started from.
func prepare(ctx context.Context, o options) (machine, error) {
	m := machine{options: o}
	cache, err := cacheFolder()
	if err != nil {
		return m, err
	}
	if m.kernel, err = findKernel(cache, o.kernel, o.arch); err != nil {
		return m, err
	}
	content, err := initramfs(ctx, o, m.kernel, cache)
	if err != nil {
		return m, err
	}
	if m.initramfs, err = unnamed(content, len(content)); err == nil && o.disk > 0 {
		m.disk, err = unnamed(nil, o.disk<<20)
	}
	if err == nil && o.ext4 > 0 {
		err = format(ctx, m.disk, o.ext4)
	}
	return m, err
}

// format makes an ext4 file system at the start of a disk. Its tables are written at once: a guest's kernel would
// otherwise do that beside the test.
func format(ctx context.Context, disk *os.File, mebibytes int) error {
	program, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		program = "/usr/sbin/mkfs.ext4" // not in the PATH of every user
	}
	cmd := exec.CommandContext(ctx, program, "-q", "-F", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
		"/dev/fd/3", fmt.Sprintf("%dM", mebibytes))
	cmd.ExtraFiles = []*os.File{disk}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format the disk: %w (Debian package e2fsprogs)\n%s", err, text)
	}
	return nil
}

// unnamed makes a file that goes away with its last descriptor.
func unnamed(content []byte, size int) (*os.File, error) {
	f, err := os.CreateTemp("", "guest-")
	if err != nil {
		return nil, err
	}
	_, err = f.Write(content)
	return f, errors.Join(err, f.Truncate(int64(size)), os.Remove(f.Name()))
}

// cacheFolder is where kernels and the guest's init are kept.
func cacheFolder() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "tacho", "guest")
	return dir, os.MkdirAll(dir, 0o755)
}
