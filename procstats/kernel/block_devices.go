// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"os"
	"path/filepath"
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

// ParseIOStat sums "MAJOR:MINOR KEY=VALUE KEY=VALUE" lines over all devices that are no layers. Lines that name a
// device and have no numbers are real: kernels up to 5.x print them for devices without I/O.
func (d *BlockDevices) ParseIOStat(data []byte, fields []Field) {
	for i := range fields {
		fields[i].Value, fields[i].State = 0, FieldRead
	}
	d.each(data, fields, func(_, line []byte) { addIOStat(line, fields) })
}

// addIOStat adds the KEY=VALUE words of a line.
func addIOStat(line []byte, fields []Field) {
	for len(line) > 0 {
		var word []byte
		word, line, _ = cutAt(line, ' ')
		key, value, found := cutAt(word, '=')
		for i := range fields {
			if found && string(key) == fields[i].Key {
				fields[i].add(value)
			}
		}
	}
}

// ParseBlkio sums "MAJOR:MINOR KEY VALUE" lines over all devices that are no layers, and leaves sums of 0 missing: they
// say nothing about the task. The last line, "Total VALUE", has no device.
func (d *BlockDevices) ParseBlkio(data []byte, fields []Field) {
	d.each(data, fields, func(_, line []byte) {
		key, value, found := cutAt(line, ' ')
		for i := range fields {
			if found && string(key) == fields[i].Key && string(value) != "0" {
				fields[i].add(value)
			}
		}
	})
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
		if number == nil {
			continue
		}
		device := DeviceIO{Number: string(number)}
		if err := device.parse(words); err != nil {
			return nil, err
		}
		if device == (DeviceIO{Number: device.Number}) {
			continue
		}
		device.Layer = d.isLayer(number)
		if path, err := os.Readlink(filepath.Join(d.root.Sys, "dev", "block", device.Number)); err == nil {
			device.Name = filepath.Base(path)
		}
		list = append(list, device)
	}
	return list, nil
}

// parse reads the KEY=VALUE words of a line; other keys, and those of newer kernels, are skipped.
func (d *DeviceIO) parse(words []byte) error {
	for len(words) > 0 {
		var word []byte
		word, words, _ = bytes.Cut(words, []byte{' '})
		key, value, _ := bytes.Cut(word, []byte{'='})
		var to *int64
		switch string(key) {
		case "rbytes":
			to = &d.ReadBytes
		case "wbytes":
			to = &d.WrittenBytes
		case "rios":
			to = &d.Reads
		case "wios":
			to = &d.Writes
		default:
			continue
		}
		n, ok := parseKernelUint(value)
		if !ok {
			return ErrFormat
		}
		*to = int64(n) //nolint:gosec // at most math.MaxInt64
	}
	return nil
}

// cutDevice divides a line into its device, MAJOR:MINOR, and the words behind it. The device is nil in lines of none: the Total of blkio
// files, and the "(unknown)" of a path of NVMe multipath, which its own device counts again. Linux 5.15 to 5.18 print no end of line behind
// a device without numbers: the last of several is the one that the numbers are of.
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

// each calls add with what a line says of a device that is no layer. Where a line is cut short all fields are invalid.
func (d *BlockDevices) each(data []byte, fields []Field, add func(device, words []byte)) {
	if !d.know(data) {
		clear(d.layers) // what is below a device may have changed with it
	}
	for len(data) > 0 {
		line, rest, ok := cutLine(data)
		if !ok {
			for i := range fields {
				fields[i].State = FieldInvalid
			}
			return
		}
		data = rest
		if device, words := cutDevice(line); device != nil && !d.isLayer(device) {
			add(device, words)
		}
	}
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

// isRequestBased reports whether a device is one of device mapper that passes on requests, and so no bio that would be counted again:
// multipath, drivers/md/dm-rq.c.
func isRequestBased(dir string) bool {
	_, isMapped := os.Stat(filepath.Join(dir, "dm"))
	_, hasQueues := os.Stat(filepath.Join(dir, "mq"))
	return isMapped == nil && hasQueues == nil
}

// readWord reads an attribute of sysfs; empty if it cannot be read.
func readWord(dir, name string) string {
	text, _ := os.ReadFile(filepath.Join(dir, name)) // an attribute that is not there has no word
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
