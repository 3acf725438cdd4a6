// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestFind has notes of this process, and of one that has ended, with everything that a home can differ in.
func TestFind(t *testing.T) {
	host := HostFS()
	own := testkit.Value(OwnHome(host))(t)
	alive := testkit.Value(Identify(host, os.Getpid()))(t).ProcessID
	ended := procstats.ProcessID{PID: alive.PID, Start: alive.Start + 1}
	socket := filepath.Join(t.TempDir(), "s")
	listener := testkit.Value(net.Listen("unix", socket))(t)
	defer listener.Close()
	type change func(*procstats.Home)
	unknown := change(func(h *procstats.Home) { *h = procstats.Home{BootID: h.BootID} })
	boot := change(func(h *procstats.Home) { h.BootID = "another" })
	name := change(func(h *procstats.Home) { h.Host = "another" })
	both := change(func(h *procstats.Home) { h.Host, h.BootID = "another", "another" })
	pid := change(func(h *procstats.Home) { h.PIDNamespace = "pid:[1]" })
	time := change(func(h *procstats.Home) { h.TimeNamespace = "time:[1]" })
	const elsewhere = ElsewhereError("running on another")
	renamed := []error{elsewhere, elsewhere, elsewhere}
	if MachineID() != "" {
		renamed = []error{ErrOtherBoot, ErrOtherBoot, InNamespace}
	}
	for _, test := range []struct {
		name                string
		change              change
		alive, ended, heard error // of a process that runs, of one that has ended, and if its socket is listened on
	}{
		{"all is ours", func(*procstats.Home) {}, nil, ErrEnded, ErrEnded},
		{"nothing but the boot is known", unknown, nil, ErrEnded, ErrEnded},
		{"the machine has another name now", name, nil, ErrEnded, ErrEnded},
		{"another boot", boot, ErrOtherBoot, ErrOtherBoot, InNamespace},
		{"another boot of an unknown machine", func(h *procstats.Home) { h.Host, h.BootID = "", "x" }, ErrOtherBoot, ErrOtherBoot, InNamespace},
		{"another machine", both, elsewhere, elsewhere, elsewhere},
		{"a machine with a new name", func(h *procstats.Home) { both(h); h.Machine = MachineID() }, renamed[0], renamed[1], renamed[2]},
		{"another PID namespace", pid, InNamespace, InNamespace, InNamespace},
		{"another time namespace", time, InNamespace, InNamespace, InNamespace},
		{"another of another boot", func(h *procstats.Home) { boot(h); pid(h); time(h) }, ErrOtherBoot, ErrOtherBoot, InNamespace},
		{"an unknown boot", func(h *procstats.Home) { h.BootID = UnknownBoot }, nil, ErrEnded, InNamespace},
		{"an unknown boot, in another PID namespace", func(h *procstats.Home) { pid(h); h.BootID = UnknownBoot }, InNamespace, InNamespace, InNamespace},
		{"an unknown boot of another machine", func(h *procstats.Home) { name(h); h.BootID = UnknownBoot }, elsewhere, elsewhere, elsewhere},
		{"no boot", func(h *procstats.Home) { *h = procstats.Home{} }, ErrOtherBoot, ErrOtherBoot, InNamespace},
	} {
		home := own
		test.change(&home)
		for i, want := range []error{test.alive, test.ended, test.heard} {
			id, at := []procstats.ProcessID{alive, ended, ended}[i], []string{"", "", socket}[i]
			testkit.Equal(t, Find(host, home, id, at), want, "%s, case %d", test.name, i)
		}
	}
}

// TestFindUnseen holds that nothing is said of a process that cannot be looked at.
func TestFindUnseen(t *testing.T) {
	own := testkit.Value(OwnHome(HostFS()))(t)
	self := procstats.ProcessID{PID: os.Getpid(), Start: 1}
	proc := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(proc, "sys/kernel/random"), 0o755))
	note := func(want error, when string) {
		t.Helper()
		testkit.Equal(t, Find(FS{Proc: proc}, own, self, ""), want, "%s", when)
	}
	note(notVisible, "without a boot id")
	must(t, os.WriteFile(filepath.Join(proc, "sys/kernel/random/boot_id"), []byte(own.BootID+"\n"), 0o600))
	note(InNamespace, "without namespaces")
	own.PIDNamespace = ""
	must(t, os.Symlink("7", filepath.Join(proc, "self")))
	note(notVisible, "with another's /proc")
	must(t, os.Remove(filepath.Join(proc, "self")))
	must(t, os.MkdirAll(filepath.Join(proc, "self/ns"), 0o755))
	must(t, os.Symlink("time:[1]", filepath.Join(proc, "self/ns/time")))
	own.TimeNamespace = "time:[1]"
	note(ErrEnded, "without the process")
	boot := filepath.Join(proc, "sys/kernel/random/boot_id")
	must(t, os.Rename(boot, boot+"-hidden"))
	note(ErrEnded, "without the process, and without a boot id")
	must(t, os.Rename(boot+"-hidden", boot))
	ns := filepath.Join(proc, strconv.Itoa(self.PID), "ns")
	must(t, os.MkdirAll(ns, 0o755))
	must(t, os.Symlink("/proc/self/stat", filepath.Join(proc, strconv.Itoa(self.PID), "stat")))
	must(t, os.Symlink("time:[2]", filepath.Join(ns, "time")))
	note(ErrEnded, "with another process in another time namespace")
	own.TimeNamespace = ""
	note(InNamespace, "with perhaps this process in another time namespace")
}
