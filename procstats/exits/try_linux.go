// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	// rootCgroup is the id of the first cgroup of the hierarchy.
	rootCgroup = 1
	// tryLimit is how long the record of a thread may take that has ended.
	tryLimit = 200 * time.Millisecond
	// firstPIDs is the first PID namespace, PROC_PID_INIT_INO.
	firstPIDs = "pid:[4026531836]"
)

// checkNamespace refuses another PID namespace than the first, in which the kernel's numbers are not those of /proc.
func checkNamespace(host kernel.FS) error {
	path := filepath.Join(host.Proc, "self/ns/pid")
	if name, err := os.Readlink(path); err == nil && name != firstPIDs {
		return fmt.Errorf("%s is %s: it takes the first PID namespace, outside of containers", path, name)
	}
	return nil
}

var errSilent = errors.New("the kernel did not report its end")

// Try ends a thread of this process, and waits for its record.
func (r *Reader) Try() error {
	w, err := r.watch(rootCgroup)
	if err != nil {
		return fmt.Errorf("try the programs: %w", err)
	}
	self := uint32(os.Getpid()) //nolint:gosec // a PID
	endThread()
	reported := r.await(tryLimit, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for id, p := range w.tally.open {
			if id.pid == self && p.use.cpu > 0 {
				return true
			}
		}
		return false
	})
	if !reported {
		err = fmt.Errorf("thread of process %d: %w", self, errSilent)
	}
	return errors.Join(err, w.Close())
}

// endThread returns when a thread of this process is about to end, which the first one never does.
func endThread() {
	locked := make(chan struct{})
	go func() {
		defer close(locked)
		runtime.LockOSThread() // and a goroutine that ends locked ends its thread
		if unix.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread()
			endThread()
		}
	}()
	<-locked
}

// explain says what is missing where exits are not had.
func explain(host kernel.FS, err error) error {
	var refused *ebpf.VerifierError
	lockdown, _ := os.ReadFile(filepath.Join(host.Sys, "kernel/security/lockdown"))
	switch {
	case strings.Contains(string(lockdown), "[confidentiality]"):
		return fmt.Errorf("the kernel is locked down: %w", err)
	case errors.As(err, &refused):
		return fmt.Errorf("the kernel's verifier refused a program: %w", err)
	case os.Geteuid() == 0 && errors.Is(err, unix.EPERM): // a container can take the capabilities from root
		return fmt.Errorf("CAP_BPF and CAP_PERFMON are required, and before Linux 5.11 a limit of locked memory (ulimit -l) that has room for it: %w", unix.EPERM)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES): // without the text of the library, which suspects a limit
		return fmt.Errorf("CAP_BPF and CAP_PERFMON are required; run as root: %w", unix.EPERM)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the kernel has no BTF (CONFIG_DEBUG_INFO_BTF): %w", err)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("it takes Linux 5.8 or later: %w", err)
	}
	return err
}
