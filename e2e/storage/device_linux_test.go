// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

const (
	disk = "/dev/vda"
	// fsSize is the size of the file system at the start of the disk; raw writes go behind it.
	fsSize = 192 << 20
	sector = 512
)

// rawOffset is where raw writes to a device begin: behind the file system of the disk and of what is as large.
func rawOffset(device string) int64 {
	if strings.HasPrefix(device, "/dev/loop") {
		return 0
	}
	return fsSize
}

// counters returns what the disk itself has read and written, /sys/block/DISK/stat.
func counters(t *testing.T) (read, written int64) {
	t.Helper()
	text := testkit.Value(os.ReadFile("/sys/block/" + filepath.Base(disk) + "/stat"))(t)
	words := strings.Fields(string(text))
	for i, n := range map[int]*int64{2: &read, 6: &written} {
		sectors := testkit.Value(strconv.ParseInt(words[i], 10, 64))(t)
		*n = sectors * sector
	}
	return read, written
}

// mount mounts a device's file system for a test.
func mount(t *testing.T, device string) (dir string) {
	t.Helper()
	dir = filepath.Join("/mnt", filepath.Base(device))
	testkit.Must(t, os.MkdirAll(dir, 0o755))
	if err := unix.Mount(device, dir, "ext4", 0, ""); err != nil {
		t.Fatalf("mount %s: %v", device, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// The requests of linux/dm-ioctl.h and the size of their structure.
const (
	dmCreate, dmRemove, dmResume, dmLoad = 3, 4, 6, 9
	dmRequest                            = 0xc138fd00
	dmSize                               = 312
	dmTarget                             = 40
)

// mapper makes a device-mapper device that is the disk under another name.
func mapper(t *testing.T) (device string) {
	t.Helper()
	control := testkit.Value(os.OpenFile("/dev/mapper/control", os.O_RDWR, 0))(t)
	sectors := testkit.Value(os.ReadFile("/sys/block/" + filepath.Base(disk) + "/size"))(t)
	length := testkit.Value(strconv.ParseUint(strings.TrimSpace(string(sectors)), 10, 64))(t)
	created := dm(t, control, dmCreate, 0, nil)
	number := binary.NativeEndian.Uint64(created[40:])
	var target []byte
	target = binary.NativeEndian.AppendUint64(target, 0) // first sector
	target = binary.NativeEndian.AppendUint64(target, length)
	target = append(target, make([]byte, dmTarget-len(target))...)
	copy(target[24:], "linear")
	dm(t, control, dmLoad, 1, append(target, disk+" 0\x00"...))
	dm(t, control, dmResume, 0, nil)
	t.Cleanup(func() {
		dm(t, control, dmRemove, 0, nil)
		testkit.NoError(t, control.Close())
	})
	return fmt.Sprintf("/dev/dm-%d", number&0xff|number>>12&0xfff00)
}

// dm makes a request about the one device and returns the answer.
func dm(t *testing.T, control *os.File, request uintptr, targets uint32, data []byte) []byte {
	t.Helper()
	b := make([]byte, dmSize+len(data)+8)
	put := binary.NativeEndian.PutUint32
	put(b[0:], 4) // the version of the interface
	put(b[12:], uint32(len(b)))
	put(b[16:], dmSize) // where data begins
	put(b[20:], targets)
	copy(b[48:], "storage")
	copy(b[dmSize:], data)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, control.Fd(), dmRequest|request, uintptr(unsafe.Pointer(&b[0]))); errno != 0 {
		t.Fatalf("device mapper request %d: %v", request, errno)
	}
	return b
}

// loop makes a loop device over a new file in a folder.
func loop(t *testing.T, dir string, size int64) (device string) {
	t.Helper()
	file := testkit.Value(os.Create(filepath.Join(dir, "image")))(t)
	defer func() { testkit.NoError(t, file.Close()) }()
	testkit.Must(t, file.Truncate(size))
	device = "/dev/loop0"
	f := testkit.Value(os.OpenFile(device, os.O_RDWR, 0))(t)
	testkit.Must(t, unix.IoctlSetInt(int(f.Fd()), unix.LOOP_SET_FD, int(file.Fd())))
	t.Cleanup(func() {
		testkit.NoError(t, unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0))
		testkit.NoError(t, f.Close())
	})
	return device
}

// The ways in which a task writes.
const (
	taskNothing   = "nothing"
	taskBuffered  = "buffered"  // to a new file, and that is all
	taskSynced    = "synced"    // and fsync
	taskDirect    = "direct"    // past the page cache
	taskDeleted   = "deleted"   // to a file that it then removes
	taskOverwrite = "overwrite" // over a file whose pages the test has in the cache, and fsync
	taskRaw       = "raw"       // through the page cache of a device
	taskRawSynced = "rawsynced" // and fsync
	taskRead      = "read"      // nothing, and read a file past the page cache
)

// task writes size bytes to path in one of the ways.
func task(role, path string, size int64) error {
	switch role {
	case taskNothing:
		return nil
	case taskBuffered:
		return write(path, size, os.O_CREATE|os.O_EXCL, false)
	case taskSynced:
		return write(path, size, os.O_CREATE|os.O_EXCL, true)
	case taskDirect:
		return write(path, size, os.O_CREATE|os.O_EXCL|unix.O_DIRECT, true)
	case taskDeleted:
		return errors.Join(write(path, size, os.O_CREATE|os.O_EXCL, false), os.Remove(path))
	case taskOverwrite, taskRawSynced:
		return write(path, size, 0, true)
	case taskRaw:
		return write(path, size, 0, false)
	case taskRead:
		return read(path)
	}
	return fmt.Errorf("no task %q", role)
}

// block is a mapping, which is aligned as O_DIRECT needs it.
func block() ([]byte, error) {
	b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b, err
}

func write(path string, size int64, flags int, sync bool) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|flags, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := block()
	if err != nil {
		return err
	}
	at := int64(0)
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeDevice != 0 {
		at = rawOffset(path)
	}
	for end := at + size; at < end; at += int64(len(b)) {
		if _, err := f.WriteAt(b[:min(int64(len(b)), end-at)], at); err != nil {
			return err
		}
	}
	if sync {
		return f.Sync()
	}
	return nil
}

func read(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := block()
	for err == nil {
		_, err = f.Read(b)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
