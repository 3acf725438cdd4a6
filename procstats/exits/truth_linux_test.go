// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestPeaksOfShort holds the largest resident set of commands that live for 20 ms against what each found in its own
// page tables.
func TestPeaksOfShort(t *testing.T) {
	r, truth := openReader(t), t.TempDir()
	sizes := []int{10, 20, 30, 40, 60, 80, 100, 120, 160, 200}
	name := func(mib int) string { return fmt.Sprintf("peak%d", mib) }
	args := make([]string, 0, len(sizes))
	for _, mib := range sizes {
		args = append(args, fmt.Sprintf("%s touch %d", linkTo(t, name(mib)), mib))
	}
	cmd := exec.Command(linkTo(t, "spawner"), args...)
	cmd.Env = append(os.Environ(), "EXITS_HELPER=spawn", "EXITS_IN_TURN=1", "EXITS_TRUTH="+truth)
	rows, _, _ := watch(t, r, cmd)
	for _, mib := range sizes {
		text := testkit.Value(os.ReadFile(filepath.Join(truth, strconv.Itoa(mib))))(t)
		_, text, _ = bytes.Cut(text, []byte("\nRss:"))
		kib := testkit.Value(strconv.ParseInt(string(bytes.Fields(text)[0]), 10, 64))(t)
		c := rows[name(mib)]
		if off := math.Abs(float64(c.PeakRSSBytes - kib<<10)); off > 1<<20 || c.PeakRSSGuarantee != procstats.Exact {
			t.Errorf("%d MiB: largest %d KiB (%s), in its page tables %d KiB", mib, c.PeakRSSBytes>>10, c.PeakRSSGuarantee, kib)
		}
	}
}

// TestMapped holds what short processes had mapped against what they did: read a file through a mapping, fill memory of
// their own, or take over that of their parent.
func TestMapped(t *testing.T) {
	if kernel.GivesHugePages(kernel.HostFS()) {
		t.Skip("a page fault gives several pages here: what is mapped is not known")
	}
	r, dir := openReader(t), t.TempDir()
	const mib = 64
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, make([]byte, mib<<20), 0o600))
	cmd := exec.Command(linkTo(t, "spawner"), linkTo(t, "mapper")+" map "+file, linkTo(t, "toucher")+" touch "+strconv.Itoa(mib))
	cmd.Env = append(os.Environ(), "EXITS_HELPER=spawn", "EXITS_TRUTH="+dir)
	rows, _, _ := watch(t, r, cmd)
	mapped, program := rows["mapper"].MappedBytes>>20, rows["toucher"].MappedBytes>>20
	const most = 24 // of the program
	if mapped < mib || mapped > mib+most || program > most {
		t.Errorf("%d MiB mapped of a file of %d, and %d of none", mapped, mib, program)
	}

	const large = `x=$(head -c 64000000 /dev/zero | tr '\0' x); (:) & wait`
	rows, _, _ = watch(t, r, exec.Command("/bin/sh", "-c", large))
	if c := rows["sh"]; c.PeakRSSBytes < 60_000_000 || c.MappedBytes > 4<<20 {
		t.Errorf("%d bytes of %d mapped", c.MappedBytes, c.PeakRSSBytes)
	}
}

// runAsPID runs a helper in a cgroup with the next PID chosen, which another process of the machine may get: it returns
// the one that it has.
func runAsPID(t *testing.T, dir, path, code string, pid int) int {
	t.Helper()
	if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", strconv.AppendInt(nil, int64(pid-1), 10), 0); err != nil {
		t.Skipf("the next PID cannot be chosen here: %v", err)
	}
	cmd := exec.Command(path, code)
	cmd.Env = append(os.Environ(), "EXITS_HELPER=exit")
	return run(t, dir, cmd)
}

// TestReusedPIDs runs processes one after the other with one PID: each is one, with a name and a status of its own.
func TestReusedPIDs(t *testing.T) {
	const rounds, tries = 5, 500
	r, dir, again := openReader(t), group(t), linkTo(t, "again")
	w := testkit.Value(r.Watch(dir))(t)
	pid := runAsPID(t, dir, linkTo(t, "first"), "0", os.Getpid()+1)
	processes, reused := int64(0), 0
	for ; reused < rounds && processes < tries; processes++ {
		if runAsPID(t, dir, again, "7", pid) == pid {
			reused++
		}
	}
	s, err := w.Finish(time.Second)
	must(t, errors.Join(err, w.Close()))
	got := make(map[string][2]int64)
	for _, c := range s.Commands {
		got[c.Name] = [2]int64{c.Processes, c.Failed}
	}
	if diff := cmp.Diff(map[string][2]int64{"first": {1, 0}, "again": {processes, processes}}, got); diff != "" || reused < rounds {
		t.Errorf("PID %d was used %d times again; (-want +got)\n%s", pid, reused, diff)
	}
}

// link gives this test's executable another name, which its processes have.
func linkTo(t *testing.T, name string) string {
	t.Helper()
	self := testkit.Value(filepath.Abs(os.Args[0]))(t)
	path := filepath.Join(t.TempDir(), name)
	must(t, os.Symlink(self, path))
	return path
}

// TestSharedPlace holds that the largest resident set of a process is not called its own if another has taken the
// place of what it inherited: a PID that many places further.
func TestSharedPlace(t *testing.T) {
	const places, tries = 8192, 50
	r, dir, second := openReader(t), group(t), linkTo(t, "second")
	w := testkit.Value(r.Watch(dir))(t)
	shared, first := false, ""
	for try := 0; try < tries && !shared; try++ {
		first = "first" + strconv.Itoa(try) // a row of its own: the largest of several need not be the one that shares
		long := exec.Command(linkTo(t, first))
		long.Env = append(os.Environ(), "EXITS_HELPER=wait")
		hold, err := long.StdinPipe()
		out, errOut := long.StdoutPipe()
		must(t, errors.Join(err, errOut, start(t, dir, long)))
		t.Cleanup(func() { _, _ = hold.Close(), long.Wait() }) // if the test is skipped
		// It has the place after its exec, which start does not wait for.
		testkit.Value(io.ReadFull(out, make([]byte, len(ready))))(t)
		other := long.Process.Pid + places
		if other >= 32_000 { // the least kernel.pid_max is 32768
			other -= 2 * places
		}
		shared = runAsPID(t, dir, second, "0", other) == other
		must(t, errors.Join(hold.Close(), long.Wait()))
	}
	s, err := w.Finish(time.Second)
	must(t, errors.Join(err, w.Close()))
	if !shared {
		t.Skipf("the PID was taken by another process, %d times", tries)
	}
	i := slices.IndexFunc(s.Commands, func(c procstats.Command) bool { return c.Name == first })
	if c := s.Commands[i]; c.PeakRSSGuarantee != procstats.UpperBound {
		t.Errorf("%d bytes are %s", c.PeakRSSBytes, c.PeakRSSGuarantee)
	}
}
