// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/internal/bpf"
	"github.com/tachograph/tacho/procstats/kernel"
)

// What there is no room for while nothing is read is counted, and what comes after that is recorded again.
func TestLostRecords(t *testing.T) {
	r := openReader(t)
	w := testkit.Value(r.watch(rootCgroup))(t)
	const room, threads = ringSize / (recordSize + 8), 2500
	r.mu.Lock() // so that the reader waits
	for range threads {
		endThread()
	}
	r.mu.Unlock()
	if lost := w.Read().Lost; lost < threads-room-100 { // some may be about to end
		t.Errorf("%d of %d records lost, with room for %d", lost, threads, room)
	}
	noError(t, r.Try())
}

// Programs that report nothing are found out, by a thread of this process or by the first process of the cgroup.
func TestSilent(t *testing.T) {
	r := openReader(t)
	for _, l := range r.links {
		must(t, l.Close())
	}
	r.links = nil
	w, err := r.watch(^uint64(0)) // no cgroup has this id
	must(t, err)
	if _, err := w.Finish(time.Millisecond); !errors.Is(err, errSilent) {
		t.Errorf("Finish: %v", err)
	}
	if err := r.Try(); !errors.Is(err, errSilent) {
		t.Errorf("Try: %v", err)
	}
	noError(t, w.Close())
}

// TestLate counts processes right after they were reaped, some with several threads, while others keep the scheduler
// from coming back to them and a reader looks all the time.
func TestLate(t *testing.T) {
	r := openReader(t)
	for range 4 * runtime.NumCPU() {
		busy := shell(t, "while :; do :; done")
		must(t, busy.Start())
		defer func() {
			noError(t, busy.Process.Kill())
			_ = busy.Wait() // it was killed
		}()
	}
	rounds := 5
	if os.Getenv("TACHO_GUEST") != "" { // where each takes ten seconds
		rounds = 2
	}
	for range rounds {
		late(t, r)
	}
}

func late(t *testing.T, r *Reader) {
	t.Helper()
	dir := group(t)
	w := testkit.Value(r.Watch(dir))(t)
	cmd := shell(t, "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; /bin/false; done; for i in 1 2 3; do EXITS_HELPER=leader $SELF; done; echo over; read end")
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	must(t, errors.Join(errIn, errOut, start(t, dir, cmd)))
	over := make(chan error)
	go func() {
		_, err := io.ReadFull(out, make([]byte, len("over\n")))
		over <- err
	}()
	for done := false; !done; w.Read() {
		select {
		case err := <-over:
			if done = true; err != nil {
				t.Error(err)
			}
		case <-time.After(time.Millisecond):
		}
	}
	outstanding, _ := w.Await(time.Minute) // beside busy processes it takes its time
	ended := make(map[string]int64)
	for _, c := range w.Read().Commands {
		ended[c.Name] = c.Processes
	}
	self := filepath.Base(os.Args[0])
	if ended["true"] != 10 || ended["false"] != 10 || ended[self[:min(len(self), 15)]] != 3 || outstanding > 0 {
		t.Errorf("10 of each and 3 with threads have ended: %v are counted, %d are outstanding", ended, outstanding)
	}
	noError(t, errors.Join(in.Close(), w.Close()))
	_ = cmd.Wait() // read(1) fails
}

// TestUncounted holds which sockets are found that a process ends with.
func TestUncounted(t *testing.T) {
	if !kernel.OSRelease(kernel.HostFS()).AtLeast(6, 1) {
		t.Skip("it takes bpf_loop")
	}
	r, dir := openReader(t), group(t)
	w := testkit.Value(r.Watch(dir))(t)
	for _, test := range []struct {
		name       string
		family, to int
		from       int // the family of one that the process inherits; 0 for none
		want       bool
	}{
		{"own", unix.AF_INET, 9, 0, false},
		{"own of IPv6", unix.AF_INET6, 200, 0, false},
		{"beyond those that are looked at", unix.AF_INET, 2000, 0, true},
		{"AF_UNIX from outside", unix.AF_INET, 9, unix.AF_UNIX, false},
		{"from outside", unix.AF_INET, 9, unix.AF_INET, true},
		{"IPv6 from outside", unix.AF_INET, 200, unix.AF_INET6, true},
		{"AF_PACKET", unix.AF_PACKET, 9, 0, true},
		{"AF_PACKET beyond the first word", unix.AF_PACKET, 200, 0, true},
	} {
		cmd := exec.Command(os.Args[0], strconv.Itoa(test.family), strconv.Itoa(test.to))
		cmd.Env = append(os.Environ(), "EXITS_HELPER=socket")
		if test.from != 0 {
			inherited := os.NewFile(uintptr(testkit.Value(unix.Socket(test.from, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))(t)), "")
			defer inherited.Close()
			cmd.ExtraFiles = []*os.File{inherited}
		}
		before, _ := w.Uncounted()
		run(t, dir, cmd)
		if got, _ := w.Uncounted(); got > before != test.want {
			t.Errorf("%s: found %d, want any %v", test.name, got-before, test.want)
		}
	}
	must(t, w.Close())
}

// TestHanded holds that a socket from outside is seen that a process has closed when it ends, and no other descriptor.
func TestHanded(t *testing.T) {
	null := testkit.Value(os.Open(os.DevNull))(t)
	closing(t, null)
	files := map[string]uintptr{"no socket": null.Fd()}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6, unix.AF_UNIX} {
		socket := os.NewFile(uintptr(testkit.Value(unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))(t)), "")
		closing(t, socket)
		files[map[int]string{unix.AF_INET: "IPv4", unix.AF_INET6: "IPv6", unix.AF_UNIX: "AF_UNIX"}[family]] = socket.Fd()
	}
	for kind, open := range map[string]func(kernel.FS) (*Reader, error){"many": Open, "one": OpenOne} {
		r, dir := openWith(t, open), group(t)
		for name, fd := range files {
			w := testkit.Value(r.Watch(dir))(t)
			if _, unseen := w.Uncounted(); unseen != nil {
				t.Skip(unseen)
			}
			cmd := exec.Command(os.Args[0], strconv.Itoa(int(fd)))
			cmd.Env = append(os.Environ(), "EXITS_HELPER=take")
			run(t, dir, cmd)
			if got, _ := w.Uncounted(); got > 0 != strings.HasPrefix(name, "IP") {
				t.Errorf("a reader of %s, %s: found %d", kind, name, got)
			}
			must(t, w.Close())
		}
	}
}

// readerProgram loads a program as readers do, without attaching it.
func readerProgram(t *testing.T) *ebpf.Program {
	t.Helper()
	var p *ebpf.Program
	err := bpf.Load(kernel.HostFS(), func() (err error) {
		p, err = ebpf.NewProgram(program("sched_switch", nil))
		return err
	})
	if err != nil {
		t.Skipf("no exit records here: %v", err)
	}
	closing(t, p)
	return p
}

// TestReaders holds that readers are counted in the order in which they loaded their programs, and that one that ends
// makes room.
func TestReaders(t *testing.T) {
	id := func(p *ebpf.Program) ebpf.ProgramID {
		id, _ := testkit.Value(p.Info())(t).ID()
		return id
	}
	first, second, third := readerProgram(t), readerProgram(t), readerProgram(t)
	others, err := readersBefore(id(first)) // of this machine
	if err != nil {
		t.Skipf("the loaded programs cannot be listed here: %v", err)
	}
	if err := checkReaders(id(second), others+2); err != nil {
		t.Errorf("with room for one more: %v", err)
	}
	if err := checkReaders(id(third), others+2); others == 0 && !errors.Is(err, ErrBusy) { // other ones can have ended meanwhile
		t.Errorf("beyond the bound: %v", err)
	}
	must(t, second.Close())
	if err := checkReaders(id(third), others+2); err != nil {
		t.Errorf("after another has ended: %v", err)
	}
}
