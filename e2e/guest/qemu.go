// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Descriptors in the emulator, which opens all its files through /dev/fd: nothing is left over,
// however it ends.
const (
	messagesFD  = "/dev/fd/3"
	consoleFD   = "/dev/fd/4"
	initramfsFD = "/dev/fd/5"
	diskFD      = "/dev/fd/6"
)

var errBoot = errors.New("the guest did not start the test binary in time")

// machine is a guest that can be started.
type machine struct {
	options
	kernel    kernel
	initramfs *os.File
	disk      *os.File // nil for none
	console   *console
}

// accelerator is how the guest's CPU is made.
type accelerator []string

// processor is what differs between the machines of different processors.
type processor struct {
	emulator, debian string // the program and its Debian package
	machine, console string
	append           string
	emulated         accelerator
}

// processor returns the machine that is asked for. All its CPUs share one thread; those of amd64 have no cmpxchg16b:
// otherwise guests of QEMU 7.2 crash now and then; and no fast strings, which it emulates byte by byte.
func (o options) processor() processor {
	if o.arch == "arm64" {
		return processor{
			emulator: "qemu-system-aarch64", debian: "qemu-system-arm", machine: "virt", console: "ttyAMA0",
			emulated: accelerator{"-accel", "tcg,thread=single", "-cpu", "cortex-a72"},
		}
	}
	return processor{
		emulator: "qemu-system-x86_64", debian: "qemu-system-x86", console: "ttyS0",
		machine:  "q35,sata=off,smbus=off,usb=off,vmport=off,graphics=off",
		append:   "tsc=reliable no_timer_check",
		emulated: accelerator{"-accel", "tcg,thread=single", "-cpu", "max,-cx16,-erms,-fsrm"},
	}
}

func kvm() accelerator { return accelerator{"-accel", "kvm", "-cpu", "host"} }

// command is the emulator in a process group of its own, which ends with ctx.
func (m machine) command(ctx context.Context, accel accelerator) *exec.Cmd {
	p := m.processor()
	args := append([]string{
		"-M", p.machine,
		"-smp", strconv.Itoa(m.cpus),
		"-m", strconv.Itoa(m.memory),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", m.kernel.image(),
		"-initrd", initramfsFD,
		"-append", strings.Join([]string{"console=" + p.console, "panic=-1 psi=1 mitigations=off nokaslr apparmor=0 audit=0 quiet", p.append, m.append}, " "),
		"-chardev", "file,id=console,path=" + consoleFD,
		"-serial", "chardev:console",
		"-device", "virtio-serial-pci",
		"-chardev", "file,id=messages,path=" + messagesFD,
		"-device", "virtserialport,chardev=messages,nr=1",
	}, accel...)
	if m.disk != nil {
		args = append(args, "-drive", "if=virtio,format=raw,cache=unsafe,file="+diskFD)
	}
	cmd := exec.CommandContext(ctx, p.emulator, args...)
	cmd.Stdout, cmd.Stderr = m.console, m.console
	leash(cmd)
	return cmd
}

// run boots the guest once and returns the status of each test binary. The guest has ended then.
func (m machine) run(ctx context.Context, accel accelerator, boot time.Duration, r relay) ([]int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	messages, messagesEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer messages.Close()
	console, consoleEnd, err := os.Pipe()
	if err != nil {
		messagesEnd.Close()
		return nil, err
	}
	defer console.Close()
	cmd := m.command(ctx, accel)
	cmd.ExtraFiles = []*os.File{messagesEnd, consoleEnd, m.initramfs, m.disk}
	err = cmd.Start()
	messagesEnd.Close()
	consoleEnd.Close()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%w: install the Debian package %s (--no-install-recommends will do)", err, m.processor().debian)
	}
	if err != nil {
		return nil, err
	}

	var copying sync.WaitGroup
	copying.Go(func() { _, _ = io.Copy(m.console, console) }) // it ends with the guest
	watch := time.AfterFunc(boot, func() { cancel(errBoot) })
	started := r.started
	r.started = func() {
		watch.Stop()
		started()
	}
	statuses, err := r.run(messages)
	watch.Stop()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	// The result is the last thing of interest, and nothing in the guest outlives it.
	cancel(nil)
	_ = cmd.Wait() // killed, or ended by itself before and without a result
	copying.Wait()
	return statuses, err
}
