// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats/kernel"
)

// devices reads what the task did to each block device, before its cgroup is removed; nothing if that does not count it, or has
// counted others before.
func (t *task) devices() []record.Device {
	if t.group.V2 == "" || !t.group.Owned {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(t.group.V2, "io.stat"))
	if err != nil {
		return nil // the reason stands at cgroup_io_read_bytes_total
	}
	list, err := kernel.NewBlockDevices(t.host).ListIOStat(data)
	if err != nil {
		t.log.Error("read I/O by device", "error", err)
		return nil
	}
	devices := make([]record.Device, 0, len(list))
	for _, d := range list {
		devices = append(devices, record.Device{
			Number: d.Number, Name: d.Name, Layer: d.Layer, ReadBytes: d.ReadBytes, WrittenBytes: d.WrittenBytes, Reads: d.Reads, Writes: d.Writes,
		})
	}
	slices.SortFunc(devices, func(a, b record.Device) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Number, b.Number))
	})
	return devices
}
