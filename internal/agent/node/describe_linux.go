// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package node

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
	"golang.org/x/sys/unix"
)

// Describe returns the facts of this machine by their dotted names, and what it has. What cannot be read is left out.
func Describe(dataDir string) (map[string]string, Resources) {
	attributes := map[string]string{
		"cpu.arch": runtime.GOARCH, "kernel.name": runtime.GOOS, "cpu.numcores": strconv.Itoa(runtime.NumCPU()),
		"cpu.totalcores": strconv.Itoa(runtime.NumCPU()),
	}
	r := Resources{Cores: usableCores()}
	attributes["cpu.reservablecores"] = strconv.Itoa(len(r.Cores))
	put := func(name, value string) {
		if value != "" {
			attributes[name] = value
		}
	}
	if info, err := host.Info(); err == nil {
		put("os.name", info.Platform)
		put("os.version", info.PlatformVersion)
		put("kernel.version", info.KernelVersion)
		put("kernel.arch", info.KernelArch)
		put("unique.hostname", info.Hostname)
	}
	put("os.signals", signalNames())
	put("os.cgroups.version", cgroupVersion("/sys/fs/cgroup"))
	if infos, err := cpu.Info(); err == nil && len(infos) > 0 {
		put("cpu.modelname", infos[0].ModelName)
		sum := 0.0
		for _, info := range infos {
			sum += info.Mhz
		}
		if r.CoreMHz = sum / float64(len(infos)); r.CoreMHz > 0 {
			put("cpu.frequency", strconv.Itoa(int(r.CoreMHz)))
			put("cpu.totalcompute", strconv.Itoa(int(r.TotalMHz())))
			put("cpu.usablecompute", strconv.Itoa(int(r.TotalMHz())))
		}
	}
	if memory, err := mem.VirtualMemory(); err == nil {
		r.MemoryBytes = int64(memory.Total)
		put("memory.totalbytes", strconv.FormatUint(memory.Total, 10))
	}
	if usage, err := disk.Usage(dataDir); err == nil {
		r.DiskBytes = int64(usage.Total)
		put("unique.storage.bytestotal", strconv.FormatUint(usage.Total, 10))
		put("unique.storage.bytesfree", strconv.FormatUint(usage.Free, 10))
		put("unique.storage.volume", usage.Path)
	}
	return attributes, r
}

// Address is the machine's own IP address on the way to other machines; the loopback address if there is no such way.
func Address() string {
	// A connected UDP socket gets its local address from the routing table, and no packet is sent. The address is of
	// a range for documentation, RFC 5737.
	conn, err := net.Dial("udp", "192.0.2.1:9")
	if err != nil {
		return "127.0.0.1"
	}
	defer conn.Close()
	if local, ok := conn.LocalAddr().(*net.UDPAddr); ok {
		return local.IP.String()
	}
	return "127.0.0.1"
}

// signalNames are the signals that can be sent to a task.
func signalNames() string {
	const last = 64
	var names []string
	for number := range unix.Signal(last + 1) {
		if name := unix.SignalName(number); name != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// cgroupVersion is that of the hierarchy at a mount point, as Nomad has it: 1 also if there is one of version 2
// beside others; empty without any.
func cgroupVersion(root string) string {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return "2"
	}
	if groups, err := filepath.Glob(filepath.Join(root, "*", "tasks")); err == nil && len(groups) > 0 {
		return "1"
	}
	return ""
}

// usableCores are those that this process may run on, sched_getaffinity(2).
func usableCores() []int {
	var set unix.CPUSet
	unread := unix.SchedGetaffinity(0, &set)
	count := set.Count()
	if unread != nil {
		count = runtime.NumCPU()
	}
	var cores []int
	for core := 0; len(cores) < count; core++ {
		if unread != nil || set.IsSet(core) {
			cores = append(cores, core)
		}
	}
	return cores
}
