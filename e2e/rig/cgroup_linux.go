// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Parent is a cgroup that a test made, in every hierarchy there is: a place for tasks (--cgroup-parent), or for
// the workload alone. What it counts is a second opinion on all that ever ran in or below it.
type Parent struct {
	// Path is its path within the hierarchies.
	Path string
	// folders maps a v1 controller, or "" for v2, to the folder.
	folders map[string]string
}

// NewParent makes a cgroup that belongs to a user; it is removed with the test, and it is an error of the test
// if anything is left in it then. Where cgroups cannot be made here, the reason is returned.
func NewParent(t testing.TB, owner User) (*Parent, error) {
	t.Helper()
	roots, err := hierarchies()
	if err != nil {
		return nil, err
	}
	p := &Parent{folders: map[string]string{}}
	t.Cleanup(func() { p.remove(t) })
	for _, controller := range []string{"", "memory", "cpu", "cpuacct", "pids", "blkio", "freezer"} {
		root, found := roots[controller]
		if !found {
			continue
		}
		if p.Path == "" {
			p.Path = filepath.Join(root.base, fmt.Sprintf("e2e-%d-%d", os.Getpid(), time.Now().UnixNano()%1e9))
		}
		folder := filepath.Join(root.mount, p.Path)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
		p.folders[controller] = folder
		if err := give(folder, owner); err != nil {
			return nil, err
		}
	}
	if len(p.folders) == 0 {
		return nil, errors.New("no cgroup hierarchy is mounted here")
	}
	return p, nil
}

// NeedParent is NewParent of the tests' own user; it skips the test where there is none.
func NeedParent(t testing.TB) *Parent {
	t.Helper()
	parent, err := NewParent(t, Self())
	if err != nil {
		t.Skip(err)
	}
	return parent
}

// NeedMemory is NeedParent with memory that can be limited.
func NeedMemory(t testing.TB) *Parent {
	t.Helper()
	Require(t)
	if os.Geteuid() != 0 {
		t.Skip("only root makes groups with memory limits everywhere")
	}
	parent := NeedParent(t)
	if _, err := parent.MemoryNow(); err != nil {
		t.Skipf("no memory can be limited here: %v", err)
	}
	return parent
}

// Sub makes a group below the cgroup, in the hierarchies where it is, except those of some v1 controllers, or "" for v2. It
// is removed before the cgroup is.
func (p *Parent) Sub(t testing.TB, name string, owner User, lacks ...string) (*Parent, error) {
	t.Helper()
	sub := &Parent{Path: filepath.Join(p.Path, name), folders: map[string]string{}}
	t.Cleanup(func() { sub.remove(t) })
	for controller, above := range p.folders {
		if slices.Contains(lacks, controller) {
			continue
		}
		folder := filepath.Join(above, name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
		sub.folders[controller] = folder
		if err := give(folder, owner); err != nil {
			return nil, err
		}
	}
	return sub, nil
}

// Delegate gives the groups below the v2 cgroup all of its controllers but some.
func (p *Parent) Delegate(lacks ...string) error {
	folder, found := p.folders[""]
	if !found {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for controller := range strings.FieldsSeq(string(data)) {
		if slices.Contains(lacks, controller) {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), []byte("+"+controller), 0); err != nil {
			return err
		}
	}
	return nil
}

// Folders lists the folders of some of the hierarchies, v1 controllers or "" for v2, where the cgroup is in them.
func (p *Parent) Folders(of ...string) []string {
	var folders []string
	for _, controller := range of {
		if folder, found := p.folders[controller]; found && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return folders
}

// Hierarchies lists those that the cgroup is in: v1 controllers, and "" for v2.
func (p *Parent) Hierarchies() []string { return slices.Sorted(maps.Keys(p.folders)) }

// give hands a cgroup to a user as delegation asks for it: the folder, and the files to move processes with.
func give(folder string, owner User) error {
	if owner.UID == os.Geteuid() {
		return nil
	}
	for _, name := range []string{".", "cgroup.procs", "tasks", "cgroup.threads", "cgroup.subtree_control"} {
		err := os.Chown(filepath.Join(folder, name), owner.UID, -1)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// hierarchy is where a controller is mounted, and the path in it below which we may make groups.
type hierarchy struct{ mount, base string }

func hierarchies() (map[string]hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	base := "/"
	for lines := bufio.NewScanner(bytes.NewReader(own)); lines.Scan(); {
		path, v2 := strings.CutPrefix(lines.Text(), "0::")
		if v2 && os.Geteuid() != 0 {
			// Delegated is the group above the leaf that we are in.
			base = filepath.Dir(path)
		}
	}
	roots := map[string]hierarchy{}
	for lines := bufio.NewScanner(bytes.NewReader(mounts)); lines.Scan(); {
		// ... mount point is field 5; after the separator: type, source, options of the file system.
		before, after, _ := strings.Cut(lines.Text(), " - ")
		point, kind := strings.Fields(before), strings.Fields(after)
		switch {
		case len(point) < 5 || len(kind) < 3:
		case kind[0] == "cgroup2":
			roots[""] = hierarchy{point[4], base}
		case kind[0] == "cgroup":
			for option := range strings.SplitSeq(kind[2], ",") {
				roots[option] = hierarchy{point[4], base}
			}
		}
	}
	return roots, nil
}

// HasMemory reports whether the memory of the tasks below can be counted.
func (p *Parent) HasMemory() bool {
	_, err := p.MemoryNow()
	return err == nil
}

// HasPeak reports whether the kernel has the highest memory use of the tasks below: on version 2 since Linux 5.19.
func (p *Parent) HasPeak() bool {
	_, err := p.MemoryPeak()
	return err == nil
}

// CPU returns the time that everything in and below the cgroup has used since it was made.
func (p *Parent) CPU() (time.Duration, error) {
	if folder, v1 := p.folders["cpuacct"]; v1 {
		ns, err := readNumber(filepath.Join(folder, "cpuacct.usage"))
		return time.Duration(ns), err
	}
	us, err := readKey(filepath.Join(p.folders[""], "cpu.stat"), "usage_usec")
	return time.Duration(us) * time.Microsecond, err
}

// MemoryPeak returns the most bytes that were ever charged to the cgroup.
func (p *Parent) MemoryPeak() (int64, error) {
	if folder, v1 := p.folders["memory"]; v1 {
		return readNumber(filepath.Join(folder, "memory.max_usage_in_bytes"))
	}
	return readNumber(filepath.Join(p.folders[""], "memory.peak"))
}

// MemoryNow returns the bytes that are charged to the cgroup.
func (p *Parent) MemoryNow() (int64, error) {
	if folder, v1 := p.folders["memory"]; v1 {
		return readNumber(filepath.Join(folder, "memory.usage_in_bytes"))
	}
	return readNumber(filepath.Join(p.folders[""], "memory.current"))
}

// LimitMemory sets the hard memory limit of everything in and below the cgroup.
func (p *Parent) LimitMemory(bytes int64) error {
	file := filepath.Join(p.folders[""], "memory.max")
	if folder, v1 := p.folders["memory"]; v1 {
		file = filepath.Join(folder, "memory.limit_in_bytes")
	}
	return os.WriteFile(file, []byte(strconv.FormatInt(bytes, 10)), 0)
}

// QuotaPeriod is the period of CPU quotas.
const QuotaPeriod = 100 * time.Millisecond

// LimitCPU sets the CPU quota, in hundredths of a core, of everything in and below the cgroup.
func (p *Parent) LimitCPU(percent int) error {
	period := int(QuotaPeriod.Microseconds())
	quota := strconv.Itoa(percent * period / 100)
	if folder, v1 := p.folders["cpu"]; v1 {
		return os.WriteFile(filepath.Join(folder, "cpu.cfs_quota_us"), []byte(quota), 0)
	}
	return os.WriteFile(filepath.Join(p.folders[""], "cpu.max"), fmt.Appendf(nil, "%s %d", quota, period), 0)
}

// Throttled returns for how long the quota kept what is in and below the cgroup from running.
func (p *Parent) Throttled() (time.Duration, error) {
	if folder, v1 := p.folders["cpu"]; v1 {
		ns, err := readKey(filepath.Join(folder, "cpu.stat"), "throttled_time")
		return time.Duration(ns), err
	}
	us, err := readKey(filepath.Join(p.folders[""], "cpu.stat"), "throttled_usec")
	return time.Duration(us) * time.Microsecond, err
}

// CPUFolder is the folder that a process moves into to have its CPU time counted.
func (p *Parent) CPUFolder() string {
	if folder, v1 := p.folders["cpuacct"]; v1 {
		return folder
	}
	return p.folders[""]
}

// MemoryFolder is the folder that a process moves into to have its memory counted.
func (p *Parent) MemoryFolder() string {
	if folder, v1 := p.folders["memory"]; v1 {
		return folder
	}
	return p.folders[""]
}

// Below lists the groups that others have made in the cgroup, deepest first.
func (p *Parent) Below() []string {
	var below []string
	for folder := range maps.Values(p.folders) {
		// A group that goes away meanwhile is not below any more.
		_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && path != folder && !slices.Contains(below, path) {
				below = append(below, path)
			}
			return nil
		})
	}
	slices.SortFunc(below, func(a, b string) int { return len(b) - len(a) })
	return below
}

// Processes lists the processes in and below the cgroup.
func (p *Parent) Processes() []int {
	var pids []int
	for _, folder := range append(p.Below(), slices.Collect(maps.Values(p.folders))...) {
		data, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func (p *Parent) remove(t testing.TB) {
	t.Helper()
	for _, pid := range p.Processes() {
		if Alive(pid) {
			t.Errorf("left behind: process %d in cgroup %s", pid, p.Path)
			Kill(pid)
		}
	}
	for _, folder := range p.Below() {
		t.Errorf("left behind: cgroup %s", folder)
		p.rmdir(t, folder)
	}
	for folder := range maps.Values(p.folders) {
		p.rmdir(t, folder)
	}
}

// rmdir removes a cgroup; processes that were just killed keep it busy for a moment.
func (p *Parent) rmdir(t testing.TB, folder string) {
	t.Helper()
	var err error
	for range 100 {
		if err = os.Remove(folder); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Error(err)
}

// readKey reads the number of a key in a file with a key and a number in each line.
func readKey(file, key string) (int64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), key+" "); found {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no %s", file, key)
}

func readNumber(file string) (int64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	return n, nil
}
