// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cost

import (
	"cmp"
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

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/exits"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
)

const (
	// workVariable makes this executable do one of works instead of tests, and roundsVariable says how often each is
	// done.
	workVariable   = "TACHO_COST_WORK"
	roundsVariable = "TACHO_COST_ROUNDS"
)

// ticking is work that never ends: a millisecond, ten times a second.
const ticking = "ticking"

// works are what a task does while its packets and exits are counted, or not: so many times, and the time of one in
// ns is printed.
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

// count counts the packets and exits of a cgroup, and returns what ends that.
func count(dir string) (end func() error, err error) {
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
}

// TestPaired does the same work with and without counting, in turns, and prints the ratios of what each took. It
// asserts nothing: only a quiet machine has comparable figures.
func TestPaired(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv(roundsVariable))
	if err != nil || rounds < 1 {
		t.Skipf("%s says how many rounds; each takes ten seconds", roundsVariable)
	}
	dir := group(t)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\toff: time\tCPU\tcounted: time\tCPU\tratio: time\tCPU\t")
	for _, work := range works {
		var took [2][][2]float64 // off and counted
		var ratios [][2]float64
		for round := range rounds {
			for k := range took { // each is the first as often as the other
				i := (round + k) % len(took)
				took[i] = append(took[i], once(t, dir, work.name, work.times, i == 1))
			}
			off, on := took[0][round], took[1][round]
			ratios = append(ratios, [2]float64{off[0] / on[0], off[1] / on[1]})
		}
		off, on, ratio := medians(took[0]), medians(took[1]), medians(ratios)
		fmt.Fprintf(w, "%s\t%.0f ns\t%.0f ns\t%.0f ns\t%.0f ns\t%.3f\t%.3f\t\n",
			work.name, off[0], off[1], on[0], on[1], ratio[0], ratio[1])
	}
	testkit.Must(t, w.Flush())
	t.Logf("median of %d rounds each; ratios are off to on in one round:\n%s", rounds, table.String())
}

// medians returns the medians of the times and of the CPU times.
func medians(values [][2]float64) (of [2]float64) {
	for i := range of {
		slices.SortFunc(values, func(a, b [2]float64) int { return cmp.Compare(a[i], b[i]) })
		of[i] = values[len(values)/2][i]
	}
	return of
}

// once returns the time of one piece of work, and the CPU time of the task and of this process for it, in nanoseconds.
func once(t *testing.T, dir, name string, times int, counted bool) [2]float64 {
	t.Helper()
	used := cgroupCPU(t, dir)
	end := func() error { return nil }
	if counted {
		var err error
		if end, err = count(dir); err != nil {
			t.Skipf("count: %v", err)
		}
	}
	f := testkit.Value(os.Open(dir))(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workVariable+"="+name)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	began := ownCPU(t)
	text, err := cmd.Output()
	reading := ownCPU(t) - began
	testkit.Must(t, errors.Join(err, end(), f.Close()))
	wall := testkit.Value(strconv.ParseFloat(strings.TrimSpace(string(text)), 64))(t)
	return [2]float64{wall, (cgroupCPU(t, dir) - used + reading) / float64(times)}
}

func ownCPU(t *testing.T) float64 {
	t.Helper()
	var now unix.Timespec
	testkit.Must(t, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now))
	return float64(now.Nano())
}

// cgroupCPU is what the cgroup has used, in nanoseconds.
func cgroupCPU(t *testing.T, dir string) float64 {
	t.Helper()
	text := testkit.Value(os.ReadFile(filepath.Join(dir, "cpu.stat")))(t)
	microseconds := testkit.Value(strconv.ParseFloat(strings.Fields(string(text))[1], 64))(t)
	return 1000 * microseconds
}

// group makes a cgroup of version 2.
func group(t *testing.T) string {
	t.Helper()
	own := testkit.Value(kernel.FindCgroup(kernel.HostFS(), os.Getpid()))(t)
	if own.V2 == "" {
		t.Skip("no cgroup of version 2 here")
	}
	dir, err := os.MkdirTemp(own.V2, "tacho-cost-")
	if err != nil {
		t.Skipf("make a cgroup: %v", err)
	}
	t.Cleanup(func() { testkit.NoError(t, os.Remove(dir)) })
	return dir
}
