// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cost

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/exits"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
)

const (
	// workVariable makes this executable do one of works instead of tests, and roundsVariable says how often each is done.
	workVariable   = "TACHO_COST_WORK"
	roundsVariable = "TACHO_COST_ROUNDS"
)

// ticking is work that never ends: a millisecond, ten times a second.
const ticking = "ticking"

// works are what a task does while its packets and exits are counted, or not: so many times, and the time of one in ns is printed.
var works = []struct {
	name  string
	times int
	do    func(times int) error
}{
	{"64-byte datagrams over the loopback interface", 40_000, datagrams},
	{"64 KiB of a TCP stream over the loopback interface", 4_000, streamed},
	{"starts of true(1)", 1_500, starts},
	{"round trips through two pipes on one CPU", 30_000, roundTrips},
}

// doWork is the main function of a process that works.
func doWork(name string) int {
	runtime.LockOSThread()
	for _, w := range works {
		if w.name != name {
			continue
		}
		began := time.Now()
		if err := errors.Join(oneCPU(), w.do(w.times)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(time.Since(began).Nanoseconds() / int64(w.times))
		return 0
	}
	if name == ticking {
		for next := time.Now(); ; next = next.Add(100 * time.Millisecond) {
			time.Sleep(time.Until(next))
			for began := time.Now(); time.Since(began) < time.Millisecond; { // uses CPU time
			}
		}
	}
	if name == "answer" {
		_, _ = io.CopyBuffer(struct{ io.Writer }{os.Stdout}, struct{ io.Reader }{os.Stdin}, make([]byte, 1))
		return 0
	}
	return 2
}

func oneCPU() error {
	var set unix.CPUSet
	set.Set(runtime.NumCPU() - 1)
	return unix.SchedSetaffinity(0, &set)
}

func datagrams(times int) error {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer conn.Close()
	to, _ := conn.LocalAddr().(*net.UDPAddr)
	address, message := to.AddrPort(), make([]byte, 64)
	for range times {
		if _, err := conn.WriteToUDPAddrPort(message, address); err != nil {
			return err
		}
		if _, _, err := conn.ReadFromUDPAddrPort(message); err != nil {
			return err
		}
	}
	return nil
}

func streamed(times int) error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	out, err := net.Dial("tcp4", listener.Addr().String())
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := listener.Accept()
	if err != nil {
		return err
	}
	defer in.Close()
	block := make([]byte, 64<<10)
	for range times {
		if _, err := out.Write(block); err != nil {
			return err
		}
		if _, err := io.ReadFull(in, block); err != nil {
			return err
		}
	}
	return nil
}

// starts starts a small program that every machine has.
func starts(times int) error {
	path, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	for range times {
		pid, err := syscall.ForkExec(path, []string{path}, &syscall.ProcAttr{})
		if err == nil {
			_, err = syscall.Wait4(pid, nil, 0, nil)
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return nil
}

func roundTrips(times int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	other := exec.Command(self)
	other.Env = append(os.Environ(), workVariable+"=answer")
	in, err := other.StdinPipe()
	if err != nil {
		return err
	}
	out, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	one := make([]byte, 1)
	for range times {
		if err == nil {
			_, err = in.Write(one)
		}
		if err == nil {
			_, err = io.ReadFull(out, one)
		}
	}
	return errors.Join(err, in.Close(), other.Wait())
}

// counting is what is attached while a task works.
type counting struct {
	name string
	// begin attaches it to a cgroup, and returns what removes it.
	begin func(dir string) (end func() error, err error)
}

func countings() []counting {
	return []counting{
		{"off", func(string) (func() error, error) { return func() error { return nil }, nil }},
		{"counted", func(dir string) (func() error, error) {
			packets, err := network.Count(kernel.HostFS(), dir)
			if err != nil {
				return nil, err
			}
			reader, err := exits.Open(kernel.HostFS())
			if err != nil {
				return nil, errors.Join(err, packets.Close())
			}
			watch, err := reader.Watch(dir)
			if err != nil {
				return nil, errors.Join(err, packets.Close(), reader.Close())
			}
			return func() error {
				watch.Read()
				return errors.Join(watch.Close(), reader.Close(), packets.Close())
			}, nil
		}},
		{"hooks alone", attachNothing},
	}
}

// attachNothing attaches programs that do nothing to the hooks of the others: what no program can be cheaper than.
func attachNothing(dir string) (func() error, error) {
	var links []link.Link
	end := func() error {
		var errs []error
		for _, l := range links {
			errs = append(errs, l.Close())
		}
		return errors.Join(errs...)
	}
	cgroup, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer cgroup.Close()
	attach := func(spec *ebpf.ProgramSpec, to func(*ebpf.Program) (link.Link, error)) {
		if err != nil {
			return
		}
		spec.License, spec.Instructions = "Dual MPL/GPL", asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}
		if spec.Type == ebpf.RawTracepoint {
			spec.Instructions[0] = asm.Mov.Imm(asm.R0, 0)
		}
		var p *ebpf.Program
		if p, err = ebpf.NewProgram(spec); err != nil {
			return
		}
		var l link.Link
		if l, err = to(p); err == nil {
			links = append(links, l)
		}
		err = errors.Join(err, p.Close())
	}
	for _, way := range []ebpf.AttachType{ebpf.AttachCGroupInetIngress, ebpf.AttachCGroupInetEgress} {
		attach(&ebpf.ProgramSpec{Type: ebpf.CGroupSKB, AttachType: way}, func(p *ebpf.Program) (link.Link, error) {
			return link.AttachRawLink(link.RawLinkOptions{Target: int(cgroup.Fd()), Program: p, Attach: way})
		})
	}
	for _, name := range []string{"sched_switch", "sched_process_exec"} {
		attach(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint}, func(p *ebpf.Program) (link.Link, error) {
			return link.AttachRawTracepoint(link.RawTracepointOptions{Name: name, Program: p})
		})
	}
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

// TestPaired does the same work with and without counting, in turns, and prints the ratios of what each took. It asserts nothing: the
// figures are those of a quiet machine only.
func TestPaired(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv(roundsVariable))
	if err != nil || rounds < 1 {
		t.Skipf("%s says how many rounds; each takes ten seconds", roundsVariable)
	}
	dir := group(t)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\t")
	for _, c := range countings() {
		fmt.Fprintf(w, "%s: time\tCPU\t", c.name)
	}
	fmt.Fprintln(w, "counted: time\tCPU\thooks alone: time\tCPU\t")
	for _, work := range works {
		took := make([][][2]float64, len(countings()))
		for round := range rounds {
			for k := range countings() { // each is the first as often as the others
				i := (round + k) % len(countings())
				took[i] = append(took[i], once(t, dir, work.name, work.times, countings()[i]))
			}
		}
		fmt.Fprint(w, work.name, "\t")
		for i := range took {
			fmt.Fprintf(w, "%.0f ns\t%.0f ns\t", median(took[i], func(v, _ [2]float64) float64 { return v[0] }, took[0]),
				median(took[i], func(v, _ [2]float64) float64 { return v[1] }, took[0]))
		}
		for i := range took[1:] {
			for what := range 2 {
				fmt.Fprintf(w, "%.3f\t", median(took[i+1], func(v, off [2]float64) float64 { return off[what] / v[what] }, took[0]))
			}
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("median of %d rounds each; ratios are off to on in one round:\n%s", rounds, table.String())
}

// median is that of what is made of a value and of the one of the same round without counting.
func median(values [][2]float64, of func(value, off [2]float64) float64, off [][2]float64) float64 {
	all := make([]float64, len(values))
	for i := range values {
		all[i] = of(values[i], off[i])
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// once returns the time of one piece of work, and the CPU time of the task and of this process for it, in nanoseconds.
func once(t *testing.T, dir, name string, times int, c counting) [2]float64 {
	t.Helper()
	used := cgroupCPU(t, dir)
	end, err := c.begin(dir)
	if err != nil {
		t.Skipf("%s: %v", c.name, err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workVariable+"="+name)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	began := ownCPU(t)
	text, err := cmd.Output()
	reading := ownCPU(t) - began
	if err := errors.Join(err, end(), f.Close()); err != nil {
		t.Fatal(err)
	}
	wall, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		t.Fatal(err)
	}
	return [2]float64{wall, (cgroupCPU(t, dir) - used + reading) / float64(times)}
}

func ownCPU(t *testing.T) float64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return float64(now.Nano())
}

// cgroupCPU is what the cgroup has used, in nanoseconds.
func cgroupCPU(t *testing.T, dir string) float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		t.Fatal(err)
	}
	microseconds, err := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return 1000 * microseconds
}

// group makes a cgroup of version 2.
func group(t *testing.T) string {
	t.Helper()
	own, err := kernel.FindCgroup(kernel.HostFS(), os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if own.V2 == "" {
		t.Skip("no cgroup of version 2 here")
	}
	dir, err := os.MkdirTemp(own.V2, "tacho-cost-")
	if err != nil {
		t.Skipf("make a cgroup: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
