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

	"github.com/tachograph/tacho/e2e/guest/plan"
)

const emulator = "qemu-system-x86_64"

// Descriptors in the emulator, which opens all its files through /dev/fd: nothing is left over,
// however it ends.
const (
	messagesFD = 3 + iota
	consoleFD
	initramfsFD
	diskFD
)

// machine is a guest that can be started.
type machine struct {
	options
	kernel    kernel
	initramfs *os.File
	disk      *os.File // nil for none
}

var errBoot = errors.New("the guest did not start the test binary in time")

// accelerator is how the guest's CPU is made.
type accelerator []string

// tcg is emulation. One thread for all CPUs, and no cmpxchg16b: QEMU 7.2 lets guests crash now
// and then otherwise.
func tcg() accelerator { return accelerator{"-accel", "tcg,thread=single", "-cpu", "max,-cx16"} }

func kvm() accelerator { return accelerator{"-accel", "kvm", "-cpu", "host"} }

func (m machine) command(ctx context.Context, accel accelerator) *exec.Cmd {
	args := append([]string{
		"-M", "q35,sata=off,smbus=off,usb=off,vmport=off,graphics=off",
		"-smp", strconv.Itoa(m.cpus),
		"-m", strconv.Itoa(m.memory),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", m.kernel.image(),
		"-initrd", fd(initramfsFD),
		"-append", m.commandLine(),
		"-chardev", "file,id=console,path=" + fd(consoleFD), "-serial", "chardev:console",
		"-device", "virtio-serial-pci",
		"-chardev", "file,id=messages,path=" + fd(messagesFD),
		"-device", "virtserialport,chardev=messages,name=" + plan.Port,
	}, accel...)
	if m.disk != nil {
		args = append(args, "-drive", "if=virtio,format=raw,cache=unsafe,file="+fd(diskFD))
	}
	cmd := exec.CommandContext(ctx, emulator, args...)
	leash(cmd)
	return cmd
}

func (m machine) commandLine() string {
	words := []string{
		"console=ttyS0", "panic=-1", "psi=1", "mitigations=off", "nokaslr", "tsc=reliable",
		"no_timer_check", "apparmor=0", "audit=0",
	}
	if !m.verbose {
		words = append(words, "quiet")
	}
	return strings.Join(words, " ")
}

// run boots the guest once and gives each of its messages to receive, up to the result. The
// guest has ended when it returns. errBoot means that the test binary has not run.
func (m machine) run(ctx context.Context, accel accelerator, boot time.Duration, console io.Writer, receive func(plan.Message) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := m.command(ctx, accel)
	messages, messagesEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	defer messages.Close()
	cmd.Stdout, cmd.Stderr = console, console
	guestConsole, consoleEnd, err := os.Pipe()
	if err != nil {
		messagesEnd.Close()
		return err
	}
	defer guestConsole.Close()
	cmd.ExtraFiles = []*os.File{messagesEnd, consoleEnd, m.initramfs}
	if m.disk != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, m.disk)
	}
	err = cmd.Start()
	messagesEnd.Close()
	consoleEnd.Close()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: install the Debian package qemu-system-x86 (--no-install-recommends will do)", err)
	}
	if err != nil {
		return err
	}

	var copying sync.WaitGroup
	copying.Go(func() { io.Copy(console, guestConsole) })
	watch := time.AfterFunc(boot, func() { cancel(errBoot) })
	defer watch.Stop()
	err = read(messages, func(message plan.Message) error {
		if message.Started {
			watch.Stop()
		}
		return receive(message)
	})
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	// The result is the last thing of interest, and nothing in the guest outlives it.
	cancel(nil)
	_ = cmd.Wait() // killed, or ended by itself and then without a result
	copying.Wait()
	return err
}

func fd(n int) string { return "/dev/fd/" + strconv.Itoa(n) }
