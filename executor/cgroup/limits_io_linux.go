// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats/kernel"
)

const ioMax = "io.max"

// io sets the limits of block devices.
func (s *setter) io() error {
	for _, limit := range s.limits.GetIo() {
		err := s.write("io", "I/O limit of "+limit.GetDevice(),
			func(dir string) error { return s.ioV1(dir, limit) },
			func(dir string) error { return s.ioV2(dir, limit) })
		if err != nil {
			return explainDevice(limit.GetDevice(), err)
		}
	}
	return nil
}

func (s *setter) ioV2(dir string, limit *proto.IOLimit) error {
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
	for _, key := range keysOf(limit) {
		if key.value == nil {
			continue
		}
		held, ok := readIOMax(dir, limit.GetDevice(), key.name)
		if !ok || held != *key.value {
			return newHostError("set limit: %s: wrote %q, which is not there when read back",
				filepath.Join(dir, ioMax), line.String())
		}
		where := dir
		for _, ancestor := range kernel.CgroupAncestors(dir, s.mounts) {
			if theirs, ok := readIOMax(ancestor, limit.GetDevice(), key.name); ok && theirs < held {
				held, where = theirs, ancestor
			}
		}
		s.add(fmt.Sprintf("%s %s %s", ioMax, limit.GetDevice(), key.name), number(key.value), float64(held), where, true)
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

// readIOMax reads one key of one device from lines such as "8:16 rbps=2097152 wbps=max riops=max wiops=120"; ok is
// false if there is no limit.
func readIOMax(dir, device, key string) (limit int64, ok bool) {
	text, err := readText(dir, ioMax)
	if err != nil {
		return 0, false
	}
	for field := range strings.FieldsSeq(deviceValue(text, device)) {
		if value, found := strings.CutPrefix(field, key+"="); found {
			limit, err := strconv.ParseInt(value, 10, 64)
			return limit, err == nil
		}
	}
	return 0, false
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
