// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package bpf

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// hostOf is a host with the fields of /proc/self/status that matter, another user namespace, or a lockdown.
func hostOf(t *testing.T, capabilities string, filter, namespaced, locked bool) kernel.FS {
	t.Helper()
	fs := kernel.FS{Proc: filepath.Join(t.TempDir(), "proc"), Sys: filepath.Join(t.TempDir(), "sys")}
	testkit.Must(t, os.MkdirAll(filepath.Join(fs.Proc, "self/ns"), 0o755))
	seccomp, user, lockdown := 0, "user:[4026531837]", "[none] integrity confidentiality\n"
	if filter {
		seccomp = 2
	}
	if namespaced {
		user = "user:[4026532177]"
	}
	if locked {
		lockdown = "none integrity [confidentiality]\n"
	}
	status := fmt.Sprintf("Name:\ttacho\nCapEff:\t%s\nSeccomp:\t%d\nSeccomp_filters:\t1\n", capabilities, seccomp)
	testkit.Must(t, os.WriteFile(filepath.Join(fs.Proc, "self/status"), []byte(status), 0o600))
	testkit.Must(t, os.Symlink(user, filepath.Join(fs.Proc, "self/ns/user")))
	testkit.Must(t, os.MkdirAll(filepath.Join(fs.Sys, "kernel/security"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(fs.Sys, "kernel/security/lockdown"), []byte(lockdown), 0o600))
	return fs
}

// Each refusal has the remedy of its own cause, and not one that is met already.
func TestExplain(t *testing.T) {
	const root, docker, none, bpfAlone, both = "000001ffffffffff", "00000000a80425fb", "0000000000000000",
		"0000008000000000", "000000c000000000"
	needs := Needs{Capability: "CAP_PERFMON", Number: unix.CAP_PERFMON, Kernel: "Linux 5.10", ReadsMemory: true}
	deny := func(err error) error { return fmt.Errorf("create map: %w (MEMLOCK may be too low)", err) }
	refused := fmt.Errorf("load program: %w", &ebpf.VerifierError{Cause: unix.EINVAL, Log: []string{"unknown func"}})
	limited := &memlockError{64 << 10, deny(unix.EPERM)}
	for _, test := range []struct {
		name                       string
		err                        error
		capabilities               string
		user                       int
		filter, namespaced, locked bool
		probe                      error
		reason, remedy             string
	}{
		{"a user", deny(unix.EPERM), none, 1000, false, false, false, unix.EPERM, "CAP_BPF and CAP_PERFMON are required", "run as root"},
		{"a user, by the verifier", &ebpf.VerifierError{Cause: unix.EPERM}, none, 1000, false, false, false, unix.EPERM, "are required", "run as root"},
		{"a user below a lockdown", deny(unix.EPERM), none, 1000, false, false, true, unix.EPERM, "are required", "run as root"},
		{"one of two capabilities", deny(unix.EPERM), bpfAlone, 1000, false, false, false, unix.EPERM, "are required", "run as root"},
		{"root of a container", deny(unix.EPERM), docker, 0, true, false, false, unix.EPERM, "this root does not have", "docker run --cap-add BPF --cap-add PERFMON"},
		{"root of a user namespace", deny(unix.EPERM), root, 0, false, true, false, unix.EPERM, "of the initial user namespace", "outside of this user namespace"},
		{"a small limit", limited, both, 1000, false, false, false, unix.EINVAL, "RLIMIT_MEMLOCK is 64 KiB", "ulimit -l"},
		{"a small limit, and a filter of other calls", limited, root, 0, true, false, false, unix.EINVAL, "RLIMIT_MEMLOCK is 64 KiB", "ulimit -l"},
		{"a small limit, and no capability", limited, none, 1000, false, false, false, unix.EPERM, "are required", "run as root"},
		{"a filter with EPERM", deny(unix.EPERM), root, 0, true, false, false, unix.EPERM, "system call filter", "--cap-add BPF"},
		{"a filter with ENOSYS", deny(unix.ENOSYS), root, 0, true, false, false, unix.ENOSYS, "system call filter", "--cap-add BPF"},
		{"a filter and a small limit", limited, root, 0, true, false, false, unix.EPERM, "system call filter", "--cap-add BPF"},
		{"no bpf", deny(unix.ENOSYS), root, 0, false, false, false, unix.ENOSYS, "no bpf(2)", "CONFIG_BPF_SYSCALL"},
		{"SELinux", deny(unix.EACCES), root, 0, false, false, false, unix.EINVAL, "security module", "policy"},
		{"lockdown", refused, root, 0, false, false, true, unix.EINVAL, "locked down", "lockdown=confidentiality"},
		{"the verifier", refused, root, 0, false, false, false, unix.EINVAL, "verifier", "report this"},
		{"an old kernel", deny(unix.EINVAL), root, 0, false, false, false, unix.EINVAL, "does not have", "Linux 5.10"},
		{"a longer call", deny(unix.E2BIG), root, 0, false, false, false, unix.EINVAL, "does not have", "Linux 5.10"},
		{"not supported", ebpf.ErrNotSupported, root, 0, false, false, false, unix.EINVAL, "does not have", "Linux 5.10"},
	} {
		host := hostOf(t, test.capabilities, test.filter, test.namespaced, test.locked)
		err := explain(host, test.err, needs, test.user, func() error { return test.probe })
		var told *Refused
		if !errors.As(err, &told) || !strings.Contains(err.Error(), test.reason) || !strings.Contains(told.Remedy(), test.remedy) ||
			!strings.HasSuffix(err.Error(), "; "+told.Remedy()) {
			t.Errorf("%s: %v", test.name, err)
		}
		if isAbsent := strings.Contains(test.reason, "are required"); isAbsent && strings.Contains(err.Error(), "MEMLOCK") {
			t.Errorf("%s: %v, which is not about the limit", test.name, err)
		}
	}
	for name, err := range map[string]error{"short of memory": unix.ENOMEM, "short of descriptors": unix.EMFILE} {
		if told := explain(hostOf(t, root, false, false, false), err, needs, 0, nil); !errors.Is(told, err) || told.Error() != err.Error() {
			t.Errorf("%s: %v", name, told)
		}
	}
}

// TestLoad holds that the limit of locked memory is raised while programs are loaded, before Linux 5.11, and that
// neither this process nor one that it starts meanwhile is left with that.
func TestLoad(t *testing.T) {
	var own unix.Rlimit
	testkit.Must(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &own))
	own.Cur = 32 << 10 // which any user may raise again, root even the other one
	testkit.Must(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &own))
	child := exec.Command(testkit.Value(os.Executable())(t))
	child.Env = append(os.Environ(), "BPF_HELPER=limit")
	text := make(chan []byte, 1)
	for release, raised := range map[string]bool{"5.10.0-32-amd64": true, "5.11.0": false, "6.18.5": false} {
		fs := kernel.FS{Proc: t.TempDir()}
		testkit.Must(t, os.MkdirAll(filepath.Join(fs.Proc, "sys/kernel"), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(fs.Proc, "sys/kernel/osrelease"), []byte(release), 0o600))
		var meanwhile, after unix.Rlimit
		err := Load(fs, func() error {
			if raised {
				go func() {
					out, _ := child.Output()
					text <- out
				}()
			}
			return errors.Join(unix.Getrlimit(unix.RLIMIT_MEMLOCK, &meanwhile), unix.ENOENT)
		})
		testkit.Must(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &after))
		if (meanwhile.Cur >= own.Max) != raised || after != own || !errors.Is(err, unix.ENOENT) {
			t.Errorf("%s: %v, meanwhile %v and then %v, %v", release, own, meanwhile, after, err)
		}
	}
	if want := fmt.Sprint(own); string(<-text) != want {
		t.Errorf("a process that was started meanwhile does not have %s", want)
	}
}

// TestMain is also the process that TestLoad starts.
func TestMain(m *testing.M) {
	if os.Getenv("BPF_HELPER") != "" {
		var own unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_MEMLOCK, &own)
		fmt.Print(own)
		os.Exit(0)
	}
	os.Exit(m.Run())
}
