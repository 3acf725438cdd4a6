// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// options is one run, as the command line and the environment ask for it.
type options struct {
	kernel   string
	arch     string // as Go and Debian name it
	cgroup   string
	memory   int // MiB
	cpus     int
	disk     int // MiB, 0 for none
	ext4     int // MiB at the start of the disk, 0 for none
	user     string
	delegate bool
	kvm      bool
	verbose  bool
	append   string // to the kernel's command line
	files    mounts
	programs paths
	boot     time.Duration
	grace    time.Duration
	env      []string // beside what the host's environment has for it
	rest     []string // arguments that are no flags

	tests []test
}

// test is a test binary; one runs after the other.
type test struct {
	binary  string // on the host
	dir     string // its package folder
	args    []string
	timeout time.Duration // its own
	outputs []string      // files that it is to write
}

// timeout is that of all tests.
func (o options) timeout() time.Duration {
	var sum time.Duration
	for _, t := range o.tests {
		sum += t.timeout
	}
	return sum
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

// paths is a flag of comma-separated paths.
type paths []string

func (p *paths) String() string { return "" }

// Set adds the paths. It implements flag.Value.
func (p *paths) Set(text string) error {
	*p = append(*p, strings.Split(text, ",")...)
	return nil
}

const usage = `Usage:
  guest kernels [-archive URL] [SERIES[/ARCH] ...]
        fetch kernels into the cache, all by default, and the programs of another processor; from the
        Debian archive of this machine's apt
  guest [flags] TEST-BINARY [ARGUMENT ...]
        run a static test binary in a guest

As a part of go test:
  CGO_ENABLED=0 go test -exec "$PWD/bin/guest -kernel 6.12 -cgroup v2" ./some/package

The test binary runs in its package folder, with the files and the testdata of that folder: a
folder of the host is below /src in the guest. A shell is there too, with sleep, cat, seq, dd, true
and false. What else it needs is to be asked for:
  TACHO_GUEST_FILES=$PWD/docs:/src$PWD/docs,$PWD/bin/tacho:/bin/tacho

Environment: TACHO_GUEST_FILES=FILE:/PATH,... puts more files into the guest, like -file.
TACHO_* and Go's runtime settings reach the test binary. TACHO_GUEST=SERIES/CGROUP is set there.
Status: the test binary's; 125 where the guest gave none, 2 for wrong usage.

  guest suites [flags] [EXPRESSION]
        run the tests of the table in table.go, in the guests that it names
  guest record -results FILE
        read what "go test -v" prints here, and add the result of each test to the file
  guest table [-docs FILE] RESULTS
        print where each test ran or was skipped; fail if one ran nowhere

Flags:
`

// parse reads the command line. Its errors have been written to stderr.
func parse(args []string, getenv func(string) string, stderr io.Writer) (options, error) {
	o, err := parseFlags(args, stderr)
	if err != nil {
		return o, err
	}
	for file := range strings.FieldsFuncSeq(getenv("TACHO_GUEST_FILES"), func(r rune) bool { return r == ',' }) {
		if err = o.files.Set(file); err != nil {
			err = fmt.Errorf("TACHO_GUEST_FILES: %w", err)
			break
		}
	}
	if err == nil {
		err = o.addTest()
	}
	if err != nil {
		fmt.Fprintln(stderr, "guest:", err)
	}
	return o, err
}

// parseFlags reads the flags of a guest.
func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("guest", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.kernel, "kernel", "6.12", "kernel `series`: "+known())
	flags.StringVar(&o.arch, "arch", "amd64", "`processor`: amd64, arm64")
	flags.StringVar(&o.cgroup, "cgroup", "v2", "cgroup `layout`: v2; v1 (controllers alone); flat (v1 without memory.use_hierarchy at the root, "+
		"before Linux 5.11); hybrid (v1 controllers and v2 without any)")
	flags.IntVar(&o.memory, "memory", 512, "memory in `MiB`")
	flags.IntVar(&o.cpus, "cpus", 2, "number of CPUs")
	flags.IntVar(&o.disk, "disk", 0, "size of an empty /dev/vda in `MiB`, 0 for none")
	flags.IntVar(&o.ext4, "ext4", 0, "size of an ext4 file system at the start of the disk in `MiB`, 0 for none; made by the host's mkfs.ext4")
	flags.StringVar(&o.user, "user", "root", "`user` who runs the test binary: root, nobody")
	flags.BoolVar(&o.delegate, "delegate", false, "run in a leaf of a v2 cgroup that the user may divide, as with systemd's Delegate=yes")
	flags.StringVar(&o.append, "append", "", "more `parameters` for the kernel, such as psi=0; of two settings of one the later holds")
	flags.Var(&o.files, "file", "put `FILE:/PATH` into the guest; a folder with everything in it")
	flags.Var(&o.programs, "program", "put a `program` with its libraries at the same path into the guest")
	flags.BoolVar(&o.kvm, "kvm", false, "try KVM first")
	flags.DurationVar(&o.boot, "boot", 3*time.Minute, "longest `time` until the test binary starts")
	flags.DurationVar(&o.grace, "grace", 2*time.Minute, "longest `time` beyond the test binary's own -test.timeout")
	flags.BoolVar(&o.verbose, "v", false, "print the console also where all went well")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.rest = flags.Args()
	err := o.check()
	if err != nil {
		fmt.Fprintln(stderr, "guest:", err)
	}
	return o, err
}

func (o *options) check() error {
	if _, err := seriesOf(o.kernel); err != nil {
		return err
	}
	switch {
	case o.arch != "amd64" && o.arch != "arm64":
		return fmt.Errorf("unknown processor %q", o.arch)
	case !slices.Contains([]string{"v1", "v2", "flat", "hybrid"}, o.cgroup):
		return fmt.Errorf("unknown cgroup layout %q", o.cgroup)
	case o.user != "root" && o.user != "nobody":
		return fmt.Errorf("unknown user %q", o.user)
	case o.delegate && o.cgroup != "v2":
		return errors.New("-delegate needs -cgroup v2")
	case o.memory < 128 || o.cpus < 1 || o.disk < 0 || o.boot <= 0 || o.grace <= 0:
		return errors.New("-memory is at least 128, -cpus 1, -disk 0; -boot and -grace are above 0")
	case o.ext4 < 0 || o.ext4 > o.disk:
		return errors.New("-ext4 is at least 0 and at most -disk")
	}
	return nil
}

// addTest adds the test binary of the command line, which runs in this folder.
func (o *options) addTest() error {
	if len(o.rest) == 0 {
		return errors.New("no test binary")
	}
	dir, err := os.Getwd()
	o.tests = append(o.tests, newTest(o.rest[0], dir, o.rest[1:]))
	return err
}

// newTest takes over the test binary's arguments, with what "-test.name=value", the way in which
// go test writes them, says to the harness.
func newTest(binary, folder string, args []string) test {
	o := test{binary: binary, dir: folder, timeout: 10 * time.Minute} // also for none at all: a guest always ends
	dir := ""
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch name {
		case "test.timeout":
			if d, err := time.ParseDuration(value); err == nil && d > 0 {
				o.timeout = d
			}
		case "test.outputdir":
			dir = value
		case "test.coverprofile", "test.cpuprofile", "test.memprofile", "test.blockprofile", "test.mutexprofile", "test.trace":
			o.outputs = append(o.outputs, value)
		case "test.gocoverdir":
			continue // a scratch folder of the host's; without it the test binary makes one
		}
		o.args = append(o.args, arg)
	}
	for i, file := range o.outputs {
		if !filepath.IsAbs(file) {
			o.outputs[i] = filepath.Join(dir, file)
		}
	}
	return o
}

// environment is what the test binary gets of the host's environment.
func environment(environ []string) []string {
	settings := []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}
	return slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		ours := name == "TACHO_GUEST" || name == "TACHO_GUEST_FILES"
		return ours || !strings.HasPrefix(name, "TACHO_") && !slices.Contains(settings, name)
	})
}
