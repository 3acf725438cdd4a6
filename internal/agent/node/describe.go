// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package node

import (
	"net"
	"runtime"
	"strconv"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
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

// firstCores are the cores from 0.
func firstCores(n int) []int {
	cores := make([]int, n)
	for i := range cores {
		cores[i] = i
	}
	return cores
}
