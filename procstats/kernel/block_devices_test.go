// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
)

// stack is a machine's block devices: a disk 254:0 with dm 252:0 and, over that, md 9:0; loop devices over a file on
// the disk, a file in memory and one whose file was taken away.
func stack(t *testing.T) FS {
	t.Helper()
	root := writeTree(t, map[string]string{
		"sys/dev/block/254:0/slaves/":         "",
		"sys/dev/block/252:0/slaves/vda":      "",
		"sys/dev/block/9:0/slaves/dm-0":       "",
		"sys/dev/block/7:0/loop/backing_file": "/var/lib/images/a.img\n",
		"sys/dev/block/7:1/loop/backing_file": "/var/tmp/b.img\n",
		"sys/dev/block/7:2/slaves/":           "",
		"sys/dev/block/253:0/slaves/sda":      "", // multipath, and a volume over it
		"sys/dev/block/253:0/dm/name":         "mpatha\n",
		"sys/dev/block/253:0/mq/":             "",
		"sys/dev/block/253:1/slaves/dm-0":     "",
		"sys/dev/block/253:1/dm/name":         "volume\n",
		"sys/dev/block/7:3/loop/backing_file": "/gone/c.img (deleted)\n",
		"proc/self/mountinfo": "22 1 254:0 / / rw - ext4 /dev/vda rw\n" +
			"23 22 0:20 / /var/tmp rw - tmpfs tmpfs rw\n24 22 0:21 / /var/tmp2 rw - tmpfs tmpfs rw\n",
	})
	return FS{Proc: filepath.Join(root, "proc"), Sys: filepath.Join(root, "sys")}
}

func TestStackedDevicesCountOnce(t *testing.T) {
	tests := []parserTest{
		{"disk alone", "254:0 wbytes=5\n", parsed{"wbytes": 5.0}},
		{"dm over a disk", "254:0 wbytes=5\n252:0 wbytes=5\n", parsed{"wbytes": 5.0}},
		{"md over dm over a disk, top first", "9:0 wbytes=5\n252:0 wbytes=5\n254:0 wbytes=5\n", parsed{"wbytes": 5.0}},
		{"dm whose disk is not listed", "252:0 wbytes=5\n", parsed{"wbytes": 0.0}},
		{"loop over a file on the disk", "7:0 wbytes=5\n254:0 wbytes=6\n", parsed{"wbytes": 6.0}},
		{"loop over a file in memory", "7:1 wbytes=5\n254:0 wbytes=6\n", parsed{"wbytes": 11.0}},
		{"loop that was detached", "7:2 wbytes=5\n254:0 wbytes=6\n", parsed{"wbytes": 6.0}},
		{"loop over a deleted file", "7:3 wbytes=5\n254:0 wbytes=6\n", parsed{"wbytes": 6.0}},
		{"multipath", "253:0 wbytes=5\n", parsed{"wbytes": 5.0}},
		{"a volume over multipath", "253:0 wbytes=5\n253:1 wbytes=5\n", parsed{"wbytes": 5.0}},
		{"a path of NVMe multipath", "(unknown) wbytes=5\n254:0 wbytes=5\n", parsed{"wbytes": 5.0}},
		{"devices without an end of line", "7:0 8:16 wbytes=5\n8:0 252:0 wbytes=5\n", parsed{"wbytes": 5.0}},
		{"a device that sysfs does not know", "8:16 wbytes=5\n254:0 wbytes=6\n", parsed{"wbytes": 11.0}},
	}
	runParserTests(t, ioStat(NewBlockDevices(stack(t))), tests)
	runParserTests(t, NewBlockDevices(stack(t)).ParseBlkio, []parserTest{
		{"dm over a disk", "252:0 Write 5\n252:0 Total 5\n254:0 Write 5\n254:0 Total 5\nTotal 10\n", parsed{"Write": 5.0}},
		{"a path of NVMe multipath", "(unknown) Write 5\n254:0 Write 5\nTotal 10\n", parsed{"Write": 5.0}},
		{"only layers", "252:0 Write 5\nTotal 5\n", parsed{"Write": "missing"}},
	})
}

// TestLoopOfOldKernel reads a loop device of a kernel that writes its file as the root cgroup, unless that is done
// directly.
func TestLoopOfOldKernel(t *testing.T) {
	for name, test := range map[string]struct {
		release, dio string
		want         float64
	}{
		"5.10":                {"5.10.0-35-amd64\n", "0\n", 11},
		"5.10, direct":        {"5.10.0-35-amd64\n", "1\n", 6},
		"5.14":                {"5.14.0-1-amd64\n", "0\n", 6},
		"6.1":                 {"6.1.0\n", "0\n", 6},
		"no number of a kind": {"x\n", "0\n", 6},
	} {
		fs := stack(t)
		for path, text := range map[string]string{"proc/sys/kernel/osrelease": test.release, "sys/dev/block/7:0/loop/dio": test.dio} {
			path = filepath.Join(filepath.Dir(fs.Proc), path)
			must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)))
		}
		fields := []Field{{Key: "wbytes"}}
		ioStat(NewBlockDevices(fs))([]byte("7:0 wbytes=5\n254:0 wbytes=6\n"), fields)
		if got := fields[0].Value; got != test.want {
			t.Errorf("%s: %v bytes, want %v", name, got, test.want)
		}
	}
}

// TestNewDeviceRefreshesAll holds that the layers are looked up once, and all again when a device appears.
func TestNewDeviceRefreshesAll(t *testing.T) {
	fs := stack(t)
	devices := NewBlockDevices(fs)
	written := func(data string) float64 {
		fields := []Field{{Key: "wbytes"}}
		ioStat(devices)([]byte(data), fields)
		return fields[0].Value
	}
	const before = "7:1 wbytes=5\n254:0 wbytes=6\n"
	if got := written(before); got != 11 {
		t.Fatalf("%v bytes, want 11", got)
	}
	backing := filepath.Join(fs.Sys, "dev/block/7:1/loop/backing_file")
	must(t, os.WriteFile(backing, []byte("/var/lib/images/b.img\n"), 0o600))
	if got := written(before); got != 11 {
		t.Errorf("%v bytes of known devices, want 11: sysfs was read again", got)
	}
	testkit.Equal(t, written(before+"9:0 wbytes=6\n"), 6, "bytes with a new device")
}

// Every device that was used is listed, layers too, with the name that the kernel gives it.
func TestListIOStat(t *testing.T) {
	fs := stack(t)
	for number, target := range map[string]string{"8:0": "../../devices/pci0/block/sda", "8:1": "../../devices/pci0/block/sda/sda1"} {
		must(t, os.Symlink(target, filepath.Join(fs.Sys, "dev/block", number)))
	}
	d := NewBlockDevices(fs)
	got, err := d.ListIOStat([]byte("8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6 cost.usage=x\n8:1 rbytes=0 wbytes=0 rios=0 wios=0\n11:0 \n252:0 wbytes=7\n"))
	want := []DeviceIO{
		{Number: "8:0", Name: "sda", ReadBytes: 1, WrittenBytes: 2, Reads: 3, Writes: 4}, {Number: "252:0", Layer: true, WrittenBytes: 7},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for _, text := range []string{"8:0 rbytes=1", "8:0 rbytes=-1\n", "8:0 wbytes=\n"} {
		if list, err := d.ListIOStat([]byte(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %+v, %v", text, list, err)
		}
	}
}

// TestIOStatOfDevicesThatGo holds that sums never fall: the line of a device goes with the device.
func TestIOStatOfDevicesThatGo(t *testing.T) {
	s := NewIOStat(NewBlockDevices(FS{}))
	for _, step := range []struct {
		what, data  string
		read, wrote float64
		invalid     bool
	}{
		{"nothing", "", 0, 0, false},
		{"two disks", "8:0 rbytes=10 wbytes=1\n8:16 rbytes=100 wbytes=2\n", 110, 3, false},
		{"one goes, the other reads on", "8:0 rbytes=15 wbytes=1\n", 115, 3, false},
		{"a file that is cut short", "8:0 rbytes=20 wby", 0, 0, true},
		{"a number that is none", "8:0 rbytes=x wbytes=1\n", 0, 0, true},
		{"as before", "8:0 rbytes=20 wbytes=1\n", 120, 3, false},
		{"another disk has its number", "8:0 rbytes=20 wbytes=1\n8:16 rbytes=7 wbytes=0\n", 127, 3, false},
		{"and again", "8:0 rbytes=20 wbytes=1\n8:16 rbytes=3 wbytes=5\n", 130, 8, false},
		{"all go", "", 130, 8, false},
	} {
		fields := []Field{{Key: "rbytes"}, {Key: "wbytes"}}
		s.Parse([]byte(step.data), fields)
		invalid := fields[0].State == FieldInvalid && fields[1].State == FieldInvalid
		if invalid != step.invalid || !invalid && (fields[0].Value != step.read || fields[1].Value != step.wrote) {
			t.Errorf("%s: %+v, want %v and %v, invalid: %v", step.what, fields, step.read, step.wrote, step.invalid)
		}
	}
}
