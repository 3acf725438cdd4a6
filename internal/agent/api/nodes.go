// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/shape"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/version"
)

// nodeJSON is the machine in Nomad's shape, of the list and of one.
type nodeJSON struct {
	ID, Name, Datacenter, HTTPAddr, Address string
	TLSEnabled                              bool
	Attributes                              map[string]string
	Meta, Links                             map[string]string
	NodeClass, NodePool, Version            string
	NodeResources                           nodeResources
	ReservedResources                       reservedResources
	Resources                               shape.Resources
	Reserved                                shape.Resources
	Drivers                                 map[string]driverJSON
	Drain                                   bool
	DrainStrategy, LastDrain                *struct{}
	SchedulingEligibility                   string
	Status, StatusDescription               string
	StatusUpdatedAt                         int64
	Events                                  []nodeEvent
	HostVolumes                             map[string]struct{}
	HostNetworks                            map[string]struct{}
	CSIControllerPlugins, CSINodePlugins    map[string]struct{}
	CreateIndex, ModifyIndex                uint64
}

type nodeResources struct {
	Cpu struct { //nolint:revive // Nomad's key
		CpuShares          int64    //nolint:revive // Nomad's key
		TotalCpuCores      uint16   //nolint:revive // Nomad's key
		ReservableCpuCores []uint16 //nolint:revive // Nomad's key
	}
	Memory   struct{ MemoryMB int64 }
	Disk     struct{ DiskMB int64 }
	Networks []struct{}
	Devices  []struct{}

	MinDynamicPort, MaxDynamicPort int
}

type reservedResources struct {
	Cpu      struct{ CpuShares uint64 } //nolint:revive // Nomad's key
	Memory   struct{ MemoryMB uint64 }
	Disk     struct{ DiskMB uint64 }
	Networks struct{ ReservedHostPorts string }
}

type driverJSON struct {
	Attributes        map[string]string
	Detected, Healthy bool
	HealthDescription string
	UpdateTime        time.Time
}

type nodeEvent struct {
	Message, Subsystem string
	Details            map[string]string
	Timestamp          time.Time
}

func nodeOf(r *http.Request, now *snapshot.Agent) nodeJSON {
	n, c := now.Node, now.Config
	address := addressOf(&c)
	if ip := net.ParseIP(c.BindAddr); ip != nil && ip.IsUnspecified() && r.Host != "" {
		address = r.Host // as the client has reached it
	}
	if isLocal(r.Context()) {
		address = "" // clients would leave the socket for it, and not be trusted there
	}
	shown := nodeJSON{
		ID: n.ID, Name: n.Name, Datacenter: n.Datacenter, HTTPAddr: address, Address: c.BindAddr,
		TLSEnabled: c.TLS.CertFile != "", Attributes: map[string]string{}, Meta: map[string]string{}, Links: map[string]string{},
		NodePool: "default", Version: version.String(), Drivers: map[string]driverJSON{},
		SchedulingEligibility: "eligible", Status: "ready", StatusUpdatedAt: n.StartedAt.Unix(),
		Events:      []nodeEvent{{Message: "Node registered", Subsystem: "Cluster", Details: map[string]string{}, Timestamp: n.StartedAt}},
		HostVolumes: map[string]struct{}{}, HostNetworks: map[string]struct{}{},
		CSIControllerPlugins: map[string]struct{}{}, CSINodePlugins: map[string]struct{}{},
		CreateIndex: 1, ModifyIndex: max(1, now.Index),
	}
	maps.Copy(shown.Attributes, n.Attributes)
	delete(shown.Attributes, volumeAttribute) // a directory; readNode puts the device there
	if Trusted(r.Context()) {
		maps.Copy(shown.Meta, c.Client.Meta)
	}
	shown.setResources(&n.Resources)
	for name, d := range n.Drivers {
		if !Trusted(r.Context()) {
			d.Reason = "" // the driver's own words can have anything in them
		}
		shown.Drivers[name] = newDriverJSON(&d)
		if d.Detected {
			shown.Attributes["driver."+name] = "1"
		}
	}
	return shown
}

func (n *nodeJSON) setResources(r *node.Resources) {
	n.NodeResources.Cpu.CpuShares = int64(r.TotalMHz())
	n.NodeResources.Cpu.TotalCpuCores = uint16(min(len(r.Cores), 1<<16-1))
	n.NodeResources.Cpu.ReservableCpuCores = []uint16{}
	for _, core := range r.Cores {
		if core >= 0 && core < 1<<16 {
			n.NodeResources.Cpu.ReservableCpuCores = append(n.NodeResources.Cpu.ReservableCpuCores, uint16(core))
		}
	}
	n.NodeResources.Memory.MemoryMB, n.NodeResources.Disk.DiskMB = r.MemoryBytes>>20, r.DiskBytes>>20
	n.Resources = shape.Resources{CPU: int(r.TotalMHz()), MemoryMB: int(r.MemoryBytes >> 20), DiskMB: int(r.DiskBytes >> 20)}
}

func newDriverJSON(d *node.Driver) driverJSON {
	shown := driverJSON{
		Attributes: map[string]string{}, Detected: d.Detected, Healthy: d.Healthy, HealthDescription: d.Reason, UpdateTime: d.UpdatedAt,
	}
	for name, a := range d.Attributes {
		shown.Attributes[name] = strings.TrimSpace(fmt.Sprint(a.Value) + " " + a.Unit)
	}
	if shown.HealthDescription == "" {
		shown.HealthDescription = "Unhealthy"
		if d.Healthy {
			shown.HealthDescription = "Healthy"
		}
	}
	return shown
}

// listNodes is GET /v1/nodes: the one there is.
func (s *Server) listNodes(r *http.Request, now *snapshot.Agent) (any, error) {
	n := nodeOf(r, now)
	if !strings.HasPrefix(n.ID, strings.ToLower(r.URL.Query().Get("prefix"))) {
		return []nodeJSON{}, nil
	}
	return []nodeJSON{n}, nil
}

// checkNode refuses ids of other nodes; prefixes are taken.
func checkNode(now *snapshot.Agent, id string) error {
	if !strings.HasPrefix(now.Node.ID, strings.ToLower(id)) {
		return notFound("node not found: there is one, " + now.Node.ID)
	}
	return nil
}

// readNode is GET /v1/node/ID.
func (s *Server) readNode(r *http.Request, now *snapshot.Agent) (any, error) {
	if err := checkNode(now, r.PathValue("id")); err != nil {
		return nil, err
	}
	n := nodeOf(r, now)
	// Nomad's command line finds the node's disk among those of client/stats by this attribute.
	if stats, err := s.agent.NodeStats(r.Context()); err == nil {
		if device := deviceOf(stats.DataDisk, stats.Disks); device != "" {
			n.Attributes[volumeAttribute] = device
		}
	}
	return n, nil
}

// volumeAttribute is the device that the data directory is on.
const volumeAttribute = "unique.storage.volume"

// deviceOf is the device of the disk that a directory is on: that of the mount point nearest to it.
func deviceOf(folder *node.Disk, disks []node.Disk) string {
	if folder == nil {
		return ""
	}
	device, nearest := folder.Device, -1
	for _, d := range disks {
		inside := d.Mountpoint == folder.Mountpoint || strings.HasPrefix(folder.Mountpoint, strings.TrimSuffix(d.Mountpoint, "/")+"/")
		if inside && len(d.Mountpoint) > nearest {
			device, nearest = d.Device, len(d.Mountpoint)
		}
	}
	return device
}

// hostStats is Nomad's client/stats, and what could not be read beside it.
type hostStats struct {
	Memory           *node.Memory
	CPU              []hostCPU
	DiskStats        []node.Disk
	AllocDirStats    *node.Disk
	DeviceStats      []struct{}
	Uptime           uint64
	CPUTicksConsumed float64
	Timestamp        int64
	Tacho            struct {
		Reasons map[string]string `json:"reasons"`
	}
}

type hostCPU struct {
	CPU                       string
	User, System, Idle, Total float64
	TotalPercent              float64
}

// nodeStats is GET /v1/client/stats.
func (s *Server) nodeStats(r *http.Request, now *snapshot.Agent) (any, error) {
	if err := checkNode(now, r.URL.Query().Get("node_id")); err != nil {
		return nil, err
	}
	stats, err := s.agent.NodeStats(r.Context())
	if err != nil {
		return nil, err
	}
	shown := hostStats{
		CPU: []hostCPU{}, DiskStats: stats.Disks, DeviceStats: []struct{}{},
		Uptime: uint64(max(0, stats.Uptime).Seconds()), CPUTicksConsumed: stats.CPUTicksConsumed, Timestamp: stats.Time.UnixNano(),
	}
	if stats.DataDisk != nil {
		folder := *stats.DataDisk
		folder.Device = deviceOf(stats.DataDisk, stats.Disks)
		if !Trusted(r.Context()) {
			folder.Mountpoint = ""
		}
		shown.AllocDirStats = &folder
	}
	if _, missing := stats.Reasons["memory"]; !missing {
		shown.Memory = &stats.Memory
	}
	for _, c := range stats.CPU {
		shown.CPU = append(shown.CPU, hostCPU{c.Name, c.User, c.System, c.Idle, c.TotalPercent, c.TotalPercent})
	}
	if shown.DiskStats == nil {
		shown.DiskStats = []node.Disk{}
	}
	shown.Tacho.Reasons = stats.Reasons
	return shown, nil
}

// nodeMetadata is GET /v1/client/metadata: the operator's names of the node, which only its configuration changes.
func (s *Server) nodeMetadata(r *http.Request, now *snapshot.Agent) (any, error) {
	meta := map[string]string{}
	if Trusted(r.Context()) {
		maps.Copy(meta, now.Config.Client.Meta)
	}
	return map[string]any{"Meta": meta, "Static": meta, "Dynamic": map[string]*string{}}, nil
}
