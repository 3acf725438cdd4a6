// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package limits

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// heldFile has how many bytes a task holds, once it has touched all of them.
const heldFile = "held"

// hold holds so many bytes of huge pages, or of memory that is swapped out, from when it makes heldFile until there
// is a goFile, and tells how many these are.
func hold(role, argument string) (t told, err error) {
	size, err := strconv.Atoi(argument)
	if err != nil {
		return t, err
	}
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if role == "huge" {
		flags |= unix.MAP_HUGETLB
	}
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return t, err
	}
	for i := 0; i < size; i += os.Getpagesize() {
		memory[i] = byte(i >> 12)
	}
	if role == "swap" {
		if err := pageOut(memory); err != nil {
			return t, err
		}
	}
	if t.Bytes = int64(size); role == "swap" {
		if t.Bytes, err = swapped(); err != nil {
			return t, err
		}
	}
	if err := writeWhole(heldFile, strconv.FormatInt(t.Bytes, 10)); err != nil {
		return t, err
	}
	awaitGo()
	runtime.KeepAlive(memory)
	return t, nil
}

// writeWhole makes a file that nobody sees before it has all its content.
func writeWhole(name, content string) error {
	if err := os.WriteFile(name+".new", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// pageOut swaps memory out. The kernel keeps what it has written, and version 1 counts that as memory alone until it is
// reclaimed.
func pageOut(memory []byte) error {
	if err := unix.Madvise(memory, unix.MADV_PAGEOUT); err != nil {
		return err
	}
	own, err := kernel.FindCgroup(kernel.HostFS(), os.Getpid())
	if dir := own.V1["memory"]; err == nil && dir != "" {
		<-time.After(time.Second) // until it is written
		// What is in use stays, which is no fault.
		_ = os.WriteFile(filepath.Join(dir, "memory.force_empty"), []byte("0"), 0)
	}
	return err
}

// swapped is VmSwap of /proc/self/status.
func swapped() (bytes int64, err error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmSwap:"); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no VmSwap in %q", text)
}

// unlimited is for emulators, which take their time for a sample.
const unlimited = "--sampling-budget=100"

// placements are a cgroup of the task's own, and none.
func placements() map[string][]string {
	return map[string][]string{"cgroup": nil, "none": {"--cgroup", "none"}}
}

// TestHugePages holds huge pages, which memory.current does not count unless cgroup2 is mounted to.
func TestHugePages(t *testing.T) {
	needControllers(t, "memory")
	if !inGuest() {
		t.Skip("it reserves huge pages of the machine: guests have some to spare")
	}
	const held, pool = 64 << 20, "/proc/sys/vm/nr_hugepages"
	testkit.Must(t, os.WriteFile(pool, []byte("40"), 0))
	defer func() { testkit.NoError(t, os.WriteFile(pool, []byte("0"), 0)) }()
	for name, flags := range placements() {
		t.Run(name, func(t *testing.T) { checkHugePages(t, held, flags...) })
	}
	t.Run("accounted", func(t *testing.T) {
		memory, mount := version(t, "memory")
		if memory != 2 {
			t.Skip("only version 2 can be mounted to count huge pages")
		}
		if err := unix.Mount("", mount, "", unix.MS_REMOUNT, "memory_hugetlb_accounting"); err != nil {
			t.Skipf("mount with memory_hugetlb_accounting (since Linux 6.6): %v", err)
		}
		defer func() { testkit.NoError(t, unix.Mount("", mount, "", unix.MS_REMOUNT, "")) }()
		r := checkHugePages(t, held)
		testkit.Equal(t, number(t, r, "hugetlb_uncharged_bytes"), 0, "bytes not counted as memory")
		if peak := r.Headline["memory_peak_bytes"]; peak.Guarantee != procstats.Exact {
			t.Errorf("the peak has the huge pages, and is %+v", peak)
		}
	})
}

// mostHeld runs a task and returns what it told, its record, and the headlines of the report that has most of one:
// the last sample can be of a process that is ending. The task ends when a report has that share of what it holds.
func mostHeld(t *testing.T, name string, share float64, task string, flags ...string) (told, *record.Record, map[string]record.HeadlineValue) {
	t.Helper()
	p := rig.NewPlace(t, rig.Self())
	wait := start(t, p, task, append([]string{unlimited, "--report-interval", "500ms"}, flags...)...)
	awaitReport(t, p, name, share)
	testkit.Must(t, os.WriteFile(p.Path(goFile), nil, 0o600))
	told := wait()
	entry := p.TheRun(t)
	return told, entry.Record, mostOf(rig.Reports(t, entry), name)
}

func mostOf(reports []*record.Usage, name string) (most map[string]record.HeadlineValue) {
	for _, report := range reports {
		if most == nil || valueOf(report.Headline[name]) > valueOf(most[name]) {
			most = report.Headline
		}
	}
	return most
}

// awaitReport returns once the task says that it holds its memory, and a report has a share of that, or the slow
// clock of smaps_rollup, which is at most 10 s, has come round twice without one.
func awaitReport(t *testing.T, p *rig.Place, name string, share float64) {
	t.Helper()
	var held float64
	rig.Eventually(t, time.Minute, "the task holds its memory", func() bool {
		text, err := os.ReadFile(p.Path(heldFile))
		if err == nil {
			held, err = strconv.ParseFloat(string(text), 64)
		}
		return err == nil
	})
	for began := time.Now(); time.Since(began) < 25*time.Second; <-time.After(100 * time.Millisecond) {
		for _, run := range p.Runs(t) {
			if valueOf(mostOf(rig.Reports(t, run), name)[name]) >= share*held {
				return
			}
		}
	}
}

// valueOf is a headline's value, -1 if it has none.
func valueOf(h record.HeadlineValue) float64 {
	if h.Value == nil {
		return -1
	}
	return *h.Value
}

// checkHugePages holds that the huge pages are told apart, and that memory and its peak have them once.
func checkHugePages(t *testing.T, held int, flags ...string) *record.Record {
	t.Helper()
	_, r, headline := mostHeld(t, "memory_hugetlb_bytes", 1, fmt.Sprint("huge ", held), flags...)
	huge := headline["memory_hugetlb_bytes"]
	want := procstats.LowerBound
	if huge.Source == "hugetlb_cgroup_current_bytes" {
		want = procstats.Exact
	}
	if valueOf(huge) != float64(held) || huge.Guarantee != want {
		t.Fatalf("huge pages: %v %s by %s, want %v %s", valueOf(huge), huge.Guarantee, huge.Source, held, want)
	}
	for name, h := range map[string]record.HeadlineValue{
		"memory_bytes": headline["memory_bytes"], "memory_peak_bytes": r.Headline["memory_peak_bytes"],
	} {
		if value := valueOf(h); value < float64(held) || value > float64(held)+32<<20 {
			t.Errorf("%s: %v %s by %s, want %v and little more", name, value, h.Guarantee, h.Source, held)
		}
		t.Logf("%s %.1f MiB %s by %s; huge pages by %s", name, valueOf(h)/(1<<20), h.Guarantee, h.Source, huge.Source)
	}
	return r
}

// TestSwap has a task whose memory is on a disk.
func TestSwap(t *testing.T) {
	needControllers(t, "memory")
	const disk, size = "/dev/vda", 64 << 20
	if _, err := os.Stat(disk); err != nil || !inGuest() {
		t.Skip("it swaps to a disk: guests have one to spare (-disk 128)")
	}
	swapOn(t, disk, size)
	for name, flags := range placements() {
		t.Run(name, func(t *testing.T) {
			told, r, headline := mostHeld(t, "memory_swap_bytes", 0.95, fmt.Sprint("swap ", size/2), flags...)
			if told.Bytes < size/4 {
				t.Skipf("the kernel swapped %d bytes out of %d", told.Bytes, size/2)
			}
			swap := headline["memory_swap_bytes"]
			t.Logf("swap %.1f MiB %s by %s, the process says %.1f MiB",
				valueOf(swap)/(1<<20), swap.Guarantee, swap.Source, float64(told.Bytes)/(1<<20))
			if value := valueOf(swap); value < 0.95*float64(told.Bytes) || value > 1.05*float64(told.Bytes) {
				const account = "cgroup_memory_swap_current_bytes"
				t.Errorf("swap %v, the process says %d; %s %v %s", value, told.Bytes, account, r.Measurements[account], r.Absent[account])
			}
		})
	}
}

// swapOn makes a disk swap space, with the header that mkswap(8) writes, until the test ends.
func swapOn(t *testing.T, disk string, size int) {
	t.Helper()
	page := os.Getpagesize()
	header := make([]byte, page)
	binary.NativeEndian.PutUint32(header[1024:], 1) // version
	binary.NativeEndian.PutUint32(header[1028:], uint32(size/page-1))
	copy(header[page-10:], "SWAPSPACE2")
	file, err := os.OpenFile(disk, os.O_WRONLY|os.O_SYNC, 0)
	testkit.Must(t, err)
	_, err = file.WriteAt(header, 0)
	if closed := file.Close(); err == nil {
		err = closed
	}
	testkit.Must(t, err)
	path := testkit.Value(unix.BytePtrFromString(disk))(t)
	swap := func(call uintptr) error {
		if _, _, errno := unix.Syscall(call, uintptr(unsafe.Pointer(path)), 0, 0); errno != 0 {
			return errno
		}
		return nil
	}
	if err := swap(unix.SYS_SWAPON); err != nil {
		t.Skipf("swap to %s: %v", disk, err)
	}
	t.Cleanup(func() { testkit.NoError(t, swap(unix.SYS_SWAPOFF)) })
}
