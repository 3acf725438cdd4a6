// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/e2e/guest/plan"
)

// options is one run, as the command line and the environment ask for it.
type options struct {
	kernel   string
	cgroup   string
	memory   int // MiB
	cpus     int
	disk     int // MiB, 0 for none
	user     string
	delegate bool
	kvm      bool
	verbose  bool
	files    mounts
	boot     time.Duration
	grace    time.Duration
	binary   string   // the test binary on the host
	args     []string // its arguments
}

// mount is a file or folder of the host and its place in the guest.
type mount struct{ host, guest string }

type mounts []mount

func (m *mounts) String() string { return "" }

// Set adds "host:guest". It implements flag.Value.
func (m *mounts) Set(text string) error {
	host, guest, _ := strings.Cut(text, ":")
	if host == "" || !path.IsAbs(guest) {
		return fmt.Errorf("%q is not FILE:/PATH/IN/THE/GUEST", text)
	}
	*m = append(*m, mount{host, path.Clean(guest)})
	return nil
}

const usage = `Usage:
  guest kernels [-mirror URL] [SERIES ...]    fetch kernels into the cache, all by default
  guest [flags] TEST-BINARY [ARGUMENT ...]    run a static test binary in a guest

As a part of go test:
  CGO_ENABLED=0 go test -exec "$PWD/bin/guest -kernel 6.12 -cgroup v2" ./some/package

Environment: TACHO_GUEST_FILES=FILE:/PATH,... puts more files into the guest, like -file.
TACHO_* and Go's runtime settings reach the test binary. TACHO_GUEST=SERIES/CGROUP is set there.
Status: the test binary's; 125 where the guest gave none, 2 for wrong usage.

Flags:
`

// parse reads the command line. Its errors have been written to stderr.
func parse(args []string, getenv func(string) string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("guest", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.kernel, "kernel", "6.12", "kernel `series`: "+strings.Join(known(), ", "))
	flags.StringVar(&o.cgroup, "cgroup", "v2", "cgroup `layout`: v2; v1 (controllers alone); hybrid (v1 controllers and v2 without any)")
	flags.IntVar(&o.memory, "memory", 512, "memory in `MiB`")
	flags.IntVar(&o.cpus, "cpus", 2, "number of CPUs")
	flags.IntVar(&o.disk, "disk", 0, "size of an empty /dev/vda in `MiB`, 0 for none")
	flags.StringVar(&o.user, "user", "root", "`user` who runs the test binary: root, nobody")
	flags.BoolVar(&o.delegate, "delegate", false, "give the user a cgroup to divide further, as systemd's Delegate=yes does")
	flags.Var(&o.files, "file", "put `FILE:/PATH` into the guest; a folder with everything in it")
	flags.BoolVar(&o.kvm, "kvm", false, "try KVM first")
	flags.DurationVar(&o.boot, "boot", time.Minute, "longest `time` until the test binary starts")
	flags.DurationVar(&o.grace, "grace", 2*time.Minute, "longest `time` beyond the test binary's own -test.timeout")
	flags.BoolVar(&o.verbose, "v", false, "show the console and the times on stderr")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	err := o.complete(flags.Args(), getenv)
	if err != nil {
		fmt.Fprintln(stderr, "guest:", err)
	}
	return o, err
}

func (o *options) complete(args []string, getenv func(string) string) error {
	for text := range strings.SplitSeq(getenv("TACHO_GUEST_FILES"), ",") {
		if text == "" {
			continue
		}
		if err := o.files.Set(text); err != nil {
			return fmt.Errorf("TACHO_GUEST_FILES: %w", err)
		}
	}
	switch {
	case !slices.Contains(known(), o.kernel):
		return fmt.Errorf("unknown kernel %q: there are %s", o.kernel, strings.Join(known(), ", "))
	case !slices.Contains([]string{"v1", "v2", "hybrid"}, o.cgroup):
		return fmt.Errorf("unknown cgroup layout %q", o.cgroup)
	case o.user != "root" && o.user != "nobody":
		return fmt.Errorf("unknown user %q", o.user)
	case o.memory < 128 || o.cpus < 1 || o.disk < 0 || o.boot <= 0 || o.grace <= 0:
		return errors.New("-memory is at least 128, -cpus 1, -disk 0; -boot and -grace are above 0")
	case len(args) == 0:
		return errors.New("no test binary")
	}
	o.binary, o.args = args[0], args[1:]
	return nil
}

// testTimeout is the test binary's own timeout. No timeout at all is go test's default here:
// a guest always ends.
func testTimeout(args []string) time.Duration {
	timeout := 10 * time.Minute
	for name, value := range testFlags(args) {
		if d, err := time.ParseDuration(value); name == "timeout" && err == nil && d > 0 {
			timeout = d
		}
	}
	return timeout
}

// outputs are the files and folders that the arguments make the test binary write.
func outputs(args []string) []plan.Output {
	profiles := []string{"blockprofile", "coverprofile", "cpuprofile", "memprofile", "mutexprofile", "trace"}
	var all []plan.Output
	dir := ""
	for name, value := range testFlags(args) {
		switch {
		case name == "outputdir":
			dir = value
		case name == "gocoverdir":
			all = append(all, plan.Output{Path: value, Folder: true})
		case slices.Contains(profiles, name):
			all = append(all, plan.Output{Path: value})
		}
	}
	for i, out := range all {
		if !filepath.IsAbs(out.Path) {
			all[i].Path = filepath.Join(dir, out.Path)
		}
	}
	return all
}

// testFlags yields name and value of each "-test.name=value" among the arguments: the way in
// which go test writes them.
func testFlags(args []string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, arg := range args {
			name, value, set := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			name, ok := strings.CutPrefix(name, "test.")
			if ok && set && !yield(name, value) {
				return
			}
		}
	}
}

// environment is what the test binary gets of the host's environment.
func environment(environ []string) []string {
	runtime := []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}
	return slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "TACHO_") {
			return name == "TACHO_GUEST" || name == "TACHO_GUEST_FILES"
		}
		return !slices.Contains(runtime, name)
	})
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
