// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

const ioMax = "io.max"

// io sets the limits of block devices, and adds the lowest ones.
func (s *setter) io() error {
	requested := map[string]*float64{}
	for _, limit := range s.limits.GetIo() {
		err := s.write("io", "I/O limit of "+limit.GetDevice(),
			func(dir string) error { return s.ioV1(dir, limit) },
			func(dir string) error { return ioV2(dir, limit, requested) })
		if err != nil {
			return explainDevice(limit.GetDevice(), err)
		}
	}
	if s.group.V2 == "" {
		return nil
	}
	lowest := map[string]record.Limit{}
	for _, dir := range slices.Insert(kernel.CgroupAncestors(s.group.V2, s.mounts), 0, s.group.V2) {
		for name, limit := range readIOMax(dir) {
			if l, found := lowest[name]; !found || limit < *l.Effective {
				where := procstats.EscapeName(dir)
				lowest[name] = record.Limit{Name: name, Requested: requested[name], Effective: &limit, Where: where}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lowest)) {
		s.held = append(s.held, lowest[name])
	}
	return nil
}

// ioV2 sets the limits of a device, and notes what was requested.
func ioV2(dir string, limit *proto.IOLimit, requested map[string]*float64) error {
	var line strings.Builder
	line.WriteString(limit.GetDevice())
	for _, key := range keysOf(limit) {
		if key.value != nil {
			fmt.Fprintf(&line, " %s=%d", key.name, *key.value)
		}
	}
	if err := write(dir, ioMax, line.String()); err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	all := readIOMax(dir)
	for _, key := range keysOf(limit) {
		if key.value == nil {
			continue
		}
		name := fmt.Sprintf("%s %s %s", ioMax, limit.GetDevice(), key.name)
		if held, ok := all[name]; !ok || held != float64(*key.value) {
			return newHostError("set limit: %s: wrote %q, which is not there when read back",
				filepath.Join(dir, ioMax), line.String())
		}
		requested[name] = number(key.value)
	}
	return nil
}

// ioV1 sets one file for each key. Version 1 throttles groups independently: limits of ancestors have no effect.
func (s *setter) ioV1(dir string, limit *proto.IOLimit) error {
	for _, key := range keysOf(limit) {
		if key.value == nil {
			continue
		}
		value := strconv.FormatInt(*key.value, 10)
		err := set(dir, key.fileV1, limit.GetDevice()+" "+value, func() (string, bool, error) {
			text, err := readText(dir, key.fileV1)
			held := deviceValue(text, limit.GetDevice())
			return held, held == value, err
		})
		if err != nil {
			return err
		}
		s.add(key.fileV1+" "+limit.GetDevice(), number(key.value), float64(*key.value), dir, true)
	}
	if limit.WriteBytesPerSecond != nil || limit.WriteOperationsPerSecond != nil {
		s.group.note("I/O limit of %s: cgroup v1 does not limit writes through the page cache, "+
			"only direct and synchronous ones", limit.GetDevice())
	}
	return nil
}

// readIOMax reads lines such as "8:16 rbps=2097152 wbps=max riops=max wiops=120" into limits by name, such as
// "io.max 8:16 rbps".
func readIOMax(dir string) map[string]float64 {
	all := map[string]float64{}
	text, _ := readText(dir, ioMax) // a root, and a group without the controller, has none
	for line := range strings.Lines(text) {
		device, settings, _ := strings.Cut(line, " ")
		for setting := range strings.FieldsSeq(settings) {
			key, value, _ := strings.Cut(setting, "=")
			if limit, err := strconv.ParseFloat(value, 64); err == nil {
				all[fmt.Sprintf("%s %s %s", ioMax, device, key)] = limit
			}
		}
	}
	return all
}

// deviceValue returns the text after a device in a file with one line for each.
func deviceValue(text, device string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, device+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// explainDevice says what is wrong with a device when the kernel only says ENODEV.
func explainDevice(device string, err error) error {
	if !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	sys := filepath.Join("/sys/dev/block", device)
	if _, statErr := os.Stat(sys); statErr != nil {
		return fmt.Errorf("I/O limit of %s cannot be applied here: no such block device (lsblk lists them): %w", device, err)
	}
	if _, statErr := os.Stat(filepath.Join(sys, "partition")); statErr == nil {
		// Not by filepath.Join: sys is a symbolic link, and the folder above is its target's.
		whole, _ := os.ReadFile(sys + "/../dev")
		return fmt.Errorf("I/O limit of %s cannot be applied here: "+
			"it is a partition, and the kernel limits whole devices, here %s: %w", device, strings.TrimSpace(string(whole)), err)
	}
	return err
}
