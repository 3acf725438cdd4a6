// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// BlockDevices reads the files that count I/O by device, and adds up only devices that have no other below them: the
// kernel counts a request once at each layer of a stack (device mapper, md, loop). It remembers which devices are
// layers, and looks again when a file names one that is not known yet. It is used by one goroutine at a time.
type BlockDevices struct {
	root   FS
	layers map[string]bool // by MAJOR:MINOR
}

// NewBlockDevices returns the block devices below a sysfs root. Without one (FS.Sys is empty) no device is a layer.
func NewBlockDevices(root FS) *BlockDevices {
	return &BlockDevices{root: root, layers: map[string]bool{}}
}

// ParseBlkio sums "MAJOR:MINOR KEY VALUE" lines over all devices that are no layers, and leaves sums of 0 missing: they
// say nothing about the task. The last line, "Total VALUE", has no device.
func (d *BlockDevices) ParseBlkio(data []byte, fields []Field) {
	whole := d.each(data, func(_, line []byte) {
		key, value, _ := cutAt(line, ' ')
		if at := indexKey(fields, 0, key); at >= 0 && string(value) != "0" {
			fields[at].add(value)
		}
	})
	if !whole {
		setAll(fields, FieldInvalid)
	}
}

// addKeyValues adds the KEY=VALUE words of a line of io.stat. Other keys, and those of newer kernels, are skipped.
func addKeyValues(line []byte, fields []Field) {
	for len(line) > 0 {
		var word []byte
		word, line, _ = cutAt(line, ' ')
		key, value, found := cutAt(word, '=')
		if at := indexKey(fields, 0, key); found && at >= 0 {
			fields[at].add(value)
		}
	}
}

// DeviceIO is what a cgroup has read from and written to one block device.
type DeviceIO struct {
	Number string // MAJOR:MINOR
	Name   string // the kernel's, such as sda; empty if it does not know the device any more
	// Layer is set for a device that passes its I/O on to others, which count it again.
	Layer                                  bool
	ReadBytes, WrittenBytes, Reads, Writes int64
}

// ListIOStat returns the devices of an io.stat file that the cgroup used, layers too: their sum counts twice.
func (d *BlockDevices) ListIOStat(data []byte) ([]DeviceIO, error) {
	var list []DeviceIO
	for len(data) > 0 {
		line, rest, ok := cutLine(data)
		if !ok {
			return nil, ErrFormat
		}
		data = rest
		number, words := cutDevice(line)
		fields := [...]Field{{Key: "rbytes"}, {Key: "wbytes"}, {Key: "rios"}, {Key: "wios"}}
		setAll(fields[:], FieldRead)
		if addKeyValues(words, fields[:]); !allRead(fields[:]) {
			return nil, ErrFormat
		}
		device := DeviceIO{
			ReadBytes: int64(fields[0].Value), WrittenBytes: int64(fields[1].Value),
			Reads: int64(fields[2].Value), Writes: int64(fields[3].Value),
		}
		if number == nil || device == (DeviceIO{}) {
			continue
		}
		device.Number, device.Layer = string(number), d.isLayer(number)
		if path, err := os.Readlink(filepath.Join(d.root.Sys, "dev", "block", device.Number)); err == nil {
			device.Name = filepath.Base(path)
		}
		list = append(list, device)
	}
	return list, nil
}

// cutDevice divides a line into its device, MAJOR:MINOR, and the words behind it. The device is nil in other lines:
// the Total of blkio files, and the "(unknown)" of a path of NVMe multipath, which its own device counts again. Linux
// 5.15 to 5.18 print no end of line behind a device without numbers: the last of several is the one that the numbers
// are of.
func cutDevice(line []byte) (device, words []byte) {
	words = line
	for {
		word, rest, _ := cutAt(words, ' ')
		if bytes.IndexByte(word, ':') <= 0 || bytes.IndexByte(word, '=') >= 0 {
			return device, words
		}
		device, words = word, rest
	}
}

// each calls add with what a line says of a device that is no layer. It reports whether the last line is whole.
func (d *BlockDevices) each(data []byte, add func(device, words []byte)) (whole bool) {
	if !d.know(data) {
		clear(d.layers) // what is below a device may have changed with it
	}
	for len(data) > 0 {
		line, rest, ok := cutLine(data)
		if !ok {
			return false
		}
		data = rest
		if device, words := cutDevice(line); device != nil && !d.isLayer(device) {
			add(device, words)
		}
	}
	return true
}

// know reports whether every device of a file has been looked at.
func (d *BlockDevices) know(data []byte) bool {
	for line, rest, ok := cutLine(data); ok; line, rest, ok = cutLine(rest) {
		device, _ := cutDevice(line)
		if _, known := d.layers[string(device)]; !known && device != nil {
			return false
		}
	}
	return true
}

// isLayer looks a device up once.
func (d *BlockDevices) isLayer(device []byte) bool {
	layer, known := d.layers[string(device)]
	if !known {
		layer = d.root.Sys != "" && d.lookUp(string(device))
		d.layers[string(device)] = layer
	}
	return layer
}

// loopMajor is the major number of loop devices, Documentation/admin-guide/devices.txt.
const loopMajor = "7:"

// lookUp reports whether the I/O of a device goes on to another block device.
func (d *BlockDevices) lookUp(device string) bool {
	dir := filepath.Join(d.root.Sys, "dev", "block", device)
	if slaves, err := os.ReadDir(filepath.Join(dir, "slaves")); err == nil && len(slaves) > 0 {
		return !isRequestBased(dir)
	}
	if !strings.HasPrefix(device, loopMajor) {
		return false
	}
	if OSRelease(d.root).Before(5, 14) && readWord(dir, "loop/dio") != "1" {
		return false // its thread reads and writes the file as the root cgroup
	}
	// A loop device lists no slaves. Its file is on a block device unless it is in memory; of one that was detached
	// meanwhile nothing is known, and most files are on disks.
	backing, err := os.ReadFile(filepath.Join(dir, "loop", "backing_file"))
	return err != nil || !d.inMemory(strings.TrimSuffix(string(backing), "\n"))
}

// isRequestBased reports whether a device of device mapper passes on requests, and so no bio that would be counted
// again: multipath, drivers/md/dm-rq.c.
func isRequestBased(dir string) bool {
	_, isMapped := os.Stat(filepath.Join(dir, "dm"))
	_, hasQueues := os.Stat(filepath.Join(dir, "mq"))
	return isMapped == nil && hasQueues == nil
}

// readWord reads an attribute of sysfs; empty if it cannot be read.
func readWord(dir, name string) string {
	text, _ := ReadFile(filepath.Join(dir, name)) // an attribute that is not there has no word
	return strings.TrimSpace(string(text))
}

// inMemory reports whether a file is in a file system that has no storage below it.
func (d *BlockDevices) inMemory(file string) bool {
	mounts, err := Mounts(d.root)
	if err != nil {
		return false
	}
	var at Mount
	for _, m := range mounts {
		if within(m.Point, file) && len(m.Point) >= len(at.Point) { // of two at one point the later one is on top
			at = m
		}
	}
	switch at.FSType {
	case "tmpfs", "ramfs", "rootfs", "devtmpfs", "hugetlbfs":
		return true
	}
	return false
}

// IOStat reads the io.stat file of one cgroup again and again, Documentation/admin-guide/cgroup-v2.rst. The line of a
// device disappears with the device: what was counted for it stays in the sums.
type IOStat struct {
	devices *BlockDevices
	known   []deviceCounts
	gone    []float64 // of devices that are not there any more, by field; nil if none has gone
}

// deviceCounts are the counters of one device, by field.
type deviceCounts struct {
	number string
	values []float64
	listed bool // in the file that is being read
}

// NewIOStat returns a reader of the io.stat file of one cgroup.
func NewIOStat(devices *BlockDevices) *IOStat { return &IOStat{devices: devices} }

// Parse is a FieldParser that sums "MAJOR:MINOR KEY=VALUE KEY=VALUE" lines over all devices that are no layers; the
// fields are the same at each call. Lines that name a device and have no numbers are real: kernels up to 5.x print
// them for devices without I/O. If a line is invalid all fields are.
func (s *IOStat) Parse(data []byte, fields []Field) {
	for i := range s.known {
		s.known[i].listed = false
	}
	valid := true
	whole := s.devices.each(data, func(device, words []byte) {
		valid = valid && s.count(device, words, fields)
	})
	if !valid || !whole {
		setAll(fields, FieldInvalid)
		return
	}
	s.known = slices.DeleteFunc(s.known, func(d deviceCounts) bool {
		if !d.listed {
			s.lose(d.values)
		}
		return !d.listed
	})
	setAll(fields, FieldRead)
	for i := range fields {
		if s.gone != nil {
			fields[i].Value = s.gone[i]
		}
		for _, d := range s.known {
			fields[i].Value += d.values[i]
		}
		if fields[i].Value > math.MaxInt64 {
			fields[i].State = FieldInvalid
		}
	}
}

// count takes the line of a device. It returns false, and leaves the device as it was, if the line is invalid.
func (s *IOStat) count(device, words []byte, fields []Field) bool {
	setAll(fields, FieldRead)
	if addKeyValues(words, fields); !allRead(fields) {
		return false
	}
	at := slices.IndexFunc(s.known, func(d deviceCounts) bool { return d.number == string(device) })
	if at < 0 {
		at = len(s.known)
		s.known = append(s.known, deviceCounts{number: string(device), values: make([]float64, len(fields))})
	}
	d := &s.known[at]
	d.listed = true
	for i := range fields {
		if fields[i].Value < d.values[i] { // another device has the number
			s.lose(d.values)
			break
		}
	}
	for i := range fields {
		d.values[i] = fields[i].Value
	}
	return true
}

// lose keeps the counters of a device that is not there any more.
func (s *IOStat) lose(values []float64) {
	if s.gone == nil {
		s.gone = make([]float64, len(values))
	}
	for i, value := range values {
		s.gone[i] += value
	}
}
