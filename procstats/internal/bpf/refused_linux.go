// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// Refused is why the kernel refused programs, and what enables them.
type Refused struct {
	reason, remedy string
	err            error
}

// NewRefused is an error with its remedy, and perhaps a cause.
func NewRefused(reason, remedy string, err error) error { return &Refused{reason, remedy, err} }

func (r *Refused) Error() string {
	if r.err == nil {
		return r.reason + "; " + r.remedy
	}
	return fmt.Sprintf("%s: %v; %s", r.reason, r.err, r.remedy)
}

func (r *Refused) Unwrap() error { return r.err }

// Remedy is the last part of the error's text.
func (r *Refused) Remedy() string { return r.remedy }

// Needs are what programs of one kind take.
type Needs struct {
	// Capability is what they need beside CAP_BPF, capabilities(7).
	Capability string
	Number     uint
	// Kernel is the oldest release that is tested, and how it must be built.
	Kernel string
	// ReadsMemory is set if they read the kernel's memory, which lockdown(7) can forbid.
	ReadsMemory bool
}

func (n *Needs) names() string { return "CAP_BPF and " + n.Capability }

// grant is how a container gets the capabilities, and with Docker also the system call.
func (n *Needs) grant() string {
	return "docker run --cap-add BPF --cap-add " + strings.TrimPrefix(n.Capability, "CAP_")
}

// Explain says why programs were refused, and what enables them.
func Explain(host kernel.FS, err error, needs Needs) error {
	return explain(host, err, needs, os.Geteuid(), probe)
}

// probe makes a call that the kernel answers with EINVAL if the caller may use bpf(2) at all.
func probe() error {
	if _, _, errno := unix.Syscall(unix.SYS_BPF, 1<<16, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func explain(host kernel.FS, err error, needs Needs, user int, probe func() error) error {
	if told := (*Refused)(nil); errors.As(err, &told) {
		return err
	}
	var verifier *ebpf.VerifierError
	var memlock *memlockError
	denied := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
	refuse := func(reason, remedy string) error { return NewRefused(reason, remedy, err) }
	switch {
	case denied && !kernel.InInitialUserNamespace(host):
		err = unix.EPERM // not the text of the library, which suspects a limit of locked memory
		return refuse(needs.names()+" of the initial user namespace are required",
			"run outside of this user namespace, as rootless containers have one")
	case denied && !needs.met(host):
		err = unix.EPERM
		if user == 0 {
			return refuse(needs.names()+" are required, which this root does not have", "in a container: "+needs.grant())
		}
		return refuse(needs.names()+" are required", "run as root")
	case needs.ReadsMemory && lockedDown(host) && (denied || errors.As(err, &verifier) || errors.Is(err, unix.EINVAL)):
		return refuse("the kernel is locked down", "boot without lockdown=confidentiality")
	case errors.As(err, &verifier):
		return refuse("the kernel's verifier refused a program", "report this, it is a defect")
	case denied || errors.Is(err, unix.ENOSYS):
		answer := probe()
		switch {
		case !errors.Is(answer, unix.EINVAL) && kernel.StatusField(host, "Seccomp") == "2":
			return refuse("a system call filter denies bpf(2)", "allow it, in a container: "+needs.grant())
		case errors.Is(err, unix.ENOSYS):
			return refuse("the kernel has no bpf(2)", "a kernel with CONFIG_BPF_SYSCALL=y")
		case errors.As(err, &memlock):
			return refuse(fmt.Sprintf("RLIMIT_MEMLOCK is %d KiB and cannot be raised", memlock.limit>>10),
				"ulimit -l unlimited, LimitMEMLOCK=infinity in a unit, or Linux 5.11")
		}
		return refuse("a security module denies bpf(2)", "allow it in the module's policy")
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL), errors.Is(err, unix.E2BIG):
		return refuse("this kernel does not have what it takes", needs.Kernel)
	}
	return err
}

// met reports whether this process has the capabilities. CAP_SYS_ADMIN includes them.
func (n *Needs) met(host kernel.FS) bool {
	return kernel.Capable(host, unix.CAP_SYS_ADMIN) ||
		kernel.Capable(host, unix.CAP_BPF) && kernel.Capable(host, n.Number)
}

func lockedDown(host kernel.FS) bool {
	text, _ := os.ReadFile(filepath.Join(host.Sys, "kernel/security/lockdown")) // it is absent without lockdown
	return bytes.Contains(text, []byte("[confidentiality]"))
}
