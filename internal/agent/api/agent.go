// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/version"
)

// health responds with status 500 and the same JSON if the agent is not healthy.
func (s *Server) health(*request) (any, error) {
	cause := s.agent.Health()
	ok := object{"ok": cause == nil, "message": "ok"}
	both := object{"client": ok, "server": ok}
	if cause == nil {
		return both, nil
	}
	ok["message"] = cause.Error()
	text, err := json.Marshal(both)
	if err != nil {
		return nil, err
	}
	return nil, &problem{http.StatusInternalServerError, string(text)}
}

// self returns the configuration; for untrusted callers only the switches that explain the numbers.
func (s *Server) self(q *request) (any, error) {
	c, n, t := q.now.Config, q.now.Node, q.now.Config.Telemetry
	shown := object{
		"Name": n.Name, "Datacenter": c.Datacenter, "Region": c.Region, "Version": object{"Version": version.String()},
		"Telemetry": object{
			"CollectionInterval": t.CollectionInterval.String(), "PublishAllocationMetrics": t.PublishAllocationMetrics,
			"PublishNodeMetrics": t.PublishNodeMetrics, "PrometheusMetrics": t.PrometheusMetrics,
			"AllocationDetail": t.AllocationDetail, "NomadNames": t.NomadNames,
		},
		"Server": object{"Enabled": false}, "Client": object{"Enabled": true},
	}
	if q.trusted {
		shown["DataDir"], shown["BindAddr"], shown["Ports"] = c.DataDir, c.BindAddr, c.Ports
		shown["LogLevel"], shown["Files"], shown["DevMode"] = c.LogLevel, c.Files, c.Dev
	}
	cost := s.agent.Cost()
	return object{
		"config": shown,
		"member": memberOf(q.now),
		"stats": map[string]map[string]string{
			"client": {"node_id": n.ID, "known_servers": "", "num_allocations": strconv.Itoa(len(q.now.Allocations))},
			"runtime": {
				"arch": runtime.GOARCH, "kernel.name": runtime.GOOS, "goroutines": strconv.Itoa(cost.Goroutines),
				"version": runtime.Version(),
			},
		},
		"Tacho": object{
			"publishing": q.now.NotPublishing == "", "reason": q.now.NotPublishing, "trusted": q.trusted,
			"version": version.String(), "cost": costJSON(&cost), "history": object{
				"span_seconds": c.History.Span.Seconds(), "interval_seconds": c.History.Interval.Seconds(),
			},
		},
	}, nil
}

func costJSON(cost *snapshot.Cost) object {
	var resident any // null if it could not be read
	if cost.RSSBytes != 0 {
		resident = cost.RSSBytes
	}
	return object{
		"cpu_seconds_total": cost.CPUSeconds, "resident_memory_bytes": resident, "goroutines": cost.Goroutines,
		"uptime_seconds": cost.Uptime.Seconds(), "samples_total": cost.Samples, "samples_late_total": cost.Backlogged,
		"history_dropped_total": cost.HistoryDropped, "errors_total": cost.Errors,
	}
}

func memberOf(now *snapshot.Agent) object {
	n, c := now.Node, now.Config
	return object{
		"Name": n.Name, "Addr": c.BindAddr, "Port": max(0, c.Ports.HTTP), "Status": "alive",
		"Tags":        object{"dc": c.Datacenter, "region": c.Region, "build": version.String(), "role": "tacho"},
		"ProtocolMin": 1, "ProtocolMax": 5, "ProtocolCur": 2, "DelegateMin": 2, "DelegateMax": 5, "DelegateCur": 4,
	}
}

func (s *Server) members(q *request) (any, error) {
	c := q.now.Config
	return object{
		"ServerName": q.now.Node.Name, "ServerRegion": c.Region, "ServerDC": c.Datacenter, "Members": []any{memberOf(q.now)},
	}, nil
}

func (s *Server) leader(q *request) (any, error) { return q.now.Config.Address(), nil }

func (s *Server) servers(q *request) (any, error) { return []string{q.now.Config.Address()}, nil }

func (s *Server) regions(q *request) (any, error) { return []string{q.now.Config.Region}, nil }

// namespaces lists default and what jobs name, as far as the names match.
func (q *request) namespaces(match func(name string) bool) []object {
	names, list := map[string]bool{"default": true}, []object{}
	for _, j := range q.now.Jobs {
		names[cmp.Or(j.Job.Namespace, "default")] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if match(name) {
			list = append(list, object{"Name": name, "Description": "", "Quota": "", "CreateIndex": 1, "ModifyIndex": 1})
		}
	}
	return list
}

func (s *Server) listNamespaces(q *request) (any, error) {
	return q.namespaces(func(name string) bool { return strings.HasPrefix(name, q.values.Get("prefix")) }), nil
}

func (s *Server) readNamespace(q *request) (any, error) {
	for _, one := range q.namespaces(func(name string) bool { return name == q.PathValue("name") }) {
		return one, nil
	}
	return nil, notFound("no job in this namespace")
}

// ownToken is Nomad's token of trusted callers.
func (s *Server) ownToken(q *request) (any, error) {
	return object{
		"AccessorID": q.now.Node.ID, "SecretID": "", "Name": "the agent's token", "Type": "management",
		"Policies": []string{}, "Roles": []any{}, "Global": true, "CreateTime": q.now.Node.StartedAt,
		"CreateIndex": 1, "ModifyIndex": 1,
	}, nil
}

// collectGarbage is a GET, too, as in Nomad.
func (s *Server) collectGarbage(q *request) (any, error) {
	if err := s.checkSite(q.Request); err != nil {
		return nil, err
	}
	removed, err := s.agent.CollectGarbage()
	return object{"Tacho": object{"Removed": removed}}, err
}

func (s *Server) readMetrics(w http.ResponseWriter, q *request) error {
	switch q.values.Get("format") {
	case "":
		s.metrics.ServeJSON(w, q.Request)
		return nil
	case "prometheus":
		return s.prometheus(w, q)
	}
	return badRequest("invalid format: must be prometheus, or absent for JSON")
}

// noAllocation is the id of none: a snapshot of it has the configuration and the node only.
const noAllocation = ""

func (s *Server) prometheus(w http.ResponseWriter, q *request) error {
	if !s.agent.Snapshot(noAllocation).Config.Telemetry.PrometheusMetrics {
		const text = "Prometheus is not enabled: telemetry { prometheus_metrics = true }"
		return &problem{http.StatusUnsupportedMediaType, text}
	}
	s.metrics.ServeHTTP(w, q.Request)
	return nil
}

// object is a JSON object, in Nomad's shape.
type object = map[string]any

// nodeOf returns the machine, for the list and alone.
func nodeOf(q *request, now *snapshot.Agent) object {
	n, c := now.Node, now.Config
	address := c.Address()
	if ip := net.ParseIP(c.BindAddr); isLocal(q.Context()) {
		address = "" // clients would use it instead of the socket, and not be trusted there
	} else if ip != nil && ip.IsUnspecified() && q.Host != "" {
		address = q.Host // the one that the client uses
	}
	attributes, drivers := map[string]string{}, object{}
	maps.Copy(attributes, n.Attributes)
	delete(attributes, volumeAttribute) // a directory; readNode sets the device
	for name, d := range n.Drivers {
		if !q.trusted {
			d.Reason = "" // a driver's message can contain anything
		}
		drivers[name] = newDriver(&d)
		if d.Detected {
			attributes["driver."+name] = "1"
		}
	}
	registered := object{
		"Message": "Node registered", "Subsystem": "Cluster", "Details": object{}, "Timestamp": n.StartedAt,
	}
	shown := object{
		"ID": n.ID, "Name": n.Name, "Datacenter": n.Datacenter, "HTTPAddr": address, "Address": c.BindAddr,
		"TLSEnabled": c.TLS.CertFile != "", "Attributes": attributes, "Meta": q.nodeMeta(now), "Links": object{},
		"NodeClass": "", "NodePool": "default", "Version": version.String(), "Reserved": apijson.Resources{},
		"Drivers": drivers, "Drain": false, "DrainStrategy": nil, "LastDrain": nil, "Status": "ready",
		"SchedulingEligibility": "eligible", "StatusDescription": "", "StatusUpdatedAt": n.StartedAt.Unix(),
		"Events":      []object{registered},
		"HostVolumes": object{}, "HostNetworks": object{}, "CSIControllerPlugins": object{}, "CSINodePlugins": object{},
		"CreateIndex": 1, "ModifyIndex": max(1, now.Index),
	}
	addNodeResources(shown, &n.Resources)
	return shown
}

func addNodeResources(shown object, r *node.Resources) {
	reservable := slices.DeleteFunc(append([]int{}, r.Cores...), func(core int) bool { return core < 0 || core >= 1<<16 })
	shown["Resources"] = apijson.Resources{
		CPU: int(r.TotalMHz()), MemoryMB: int(r.MemoryBytes >> 20), DiskMB: int(r.DiskBytes >> 20),
	}
	shown["NodeResources"] = object{
		"Cpu": object{
			"CpuShares": int64(r.TotalMHz()), "TotalCpuCores": min(len(r.Cores), 1<<16-1), "ReservableCpuCores": reservable,
		},
		"Memory": object{"MemoryMB": r.MemoryBytes >> 20}, "Disk": object{"DiskMB": r.DiskBytes >> 20},
		"Networks": nil, "Devices": nil, "MinDynamicPort": 0, "MaxDynamicPort": 0,
	}
	shown["ReservedResources"] = object{
		"Cpu": object{"CpuShares": 0}, "Memory": object{"MemoryMB": 0}, "Disk": object{"DiskMB": 0},
		"Networks": object{"ReservedHostPorts": ""},
	}
}

func newDriver(d *node.Driver) object {
	health := "Unhealthy"
	if d.Healthy {
		health = "Healthy"
	}
	attributes := map[string]string{}
	for name, a := range d.Attributes {
		attributes[name] = fmt.Sprint(a)
	}
	return object{
		"Attributes": attributes, "Detected": d.Detected, "Healthy": d.Healthy,
		"HealthDescription": cmp.Or(d.Reason, health), "UpdateTime": d.UpdatedAt,
	}
}

func (s *Server) listNodes(q *request) (any, error) {
	if !strings.HasPrefix(q.now.Node.ID, strings.ToLower(q.values.Get("prefix"))) {
		return []object{}, nil
	}
	return []object{nodeOf(q, q.now)}, nil
}

// askedNode returns the node, if the path names it.
func askedNode(q *request) (*node.Node, error) { return &q.now.Node, checkNode(q, q.id()) }

// checkNode rejects ids of other nodes; prefixes are valid.
func checkNode(q *request, id string) error {
	if !strings.HasPrefix(q.now.Node.ID, strings.ToLower(id)) {
		return notFound("node not found: there is one, " + q.now.Node.ID)
	}
	return nil
}

func (s *Server) readNode(q *request, _ *node.Node) (any, error) {
	n := nodeOf(q, q.now)
	// Nomad's command line finds the node's disk in client/stats by this attribute.
	if stats, err := s.agent.NodeStats(q.Context()); err == nil {
		if device := deviceOf(stats.DataDisk, stats.Disks); device != "" {
			n["Attributes"].(map[string]string)[volumeAttribute] = device
		}
	}
	return n, nil
}

func (s *Server) nodeAllocations(q *request, _ *node.Node) (any, error) {
	list := q.allocations(func(a *allocation.Allocation) bool { return q.inNamespace(a.Namespace) })
	for _, shown := range list {
		q.addJob(shown)
	}
	return list, nil
}

// volumeAttribute is the device of the data directory.
const volumeAttribute = "unique.storage.volume"

// deviceOf returns the device of the disk with a directory, which is mounted nearest above it.
func deviceOf(folder *node.Disk, disks []node.Disk) string {
	if folder == nil {
		return ""
	}
	device, nearest := folder.Device, -1
	for _, d := range disks {
		inside := strings.HasPrefix(folder.Mountpoint+"/", strings.TrimSuffix(d.Mountpoint, "/")+"/")
		if inside && len(d.Mountpoint) > nearest {
			device, nearest = d.Device, len(d.Mountpoint)
		}
	}
	return device
}

// nodeStats is Nomad's client/stats, with the reasons for what could not be read.
func (s *Server) nodeStats(q *request) (any, error) {
	if err := checkNode(q, q.values.Get("node_id")); err != nil {
		return nil, err
	}
	stats, err := s.agent.NodeStats(q.Context())
	if err != nil {
		return nil, err
	}
	shown := object{
		"Memory": nil, "AllocDirStats": nil, "DiskStats": append([]node.Disk{}, stats.Disks...), "DeviceStats": []any{},
		"CPU":    append([]node.CPU{}, stats.CPU...),
		"Uptime": uint64(max(0, stats.Uptime).Seconds()), "CPUTicksConsumed": stats.CPUTicksConsumed,
		"Timestamp": stats.Time.UnixNano(), "Tacho": object{"reasons": stats.Reasons},
	}
	if stats.DataDisk != nil {
		folder := *stats.DataDisk
		folder.Device = deviceOf(stats.DataDisk, stats.Disks)
		if !q.trusted {
			folder.Mountpoint = ""
		}
		shown["AllocDirStats"] = &folder
	}
	if _, missing := stats.Reasons["memory"]; !missing {
		shown["Memory"] = &stats.Memory
	}
	return shown, nil
}

// nodeMetadata returns the operator's names of the node, which only its configuration changes.
func (s *Server) nodeMetadata(q *request) (any, error) {
	meta := q.nodeMeta(q.now)
	return object{"Meta": meta, "Static": meta, "Dynamic": object{}}, nil
}

func (q *request) nodeMeta(now *snapshot.Agent) map[string]string {
	if meta := now.Config.Client.Meta; meta != nil && q.trusted {
		return meta
	}
	return map[string]string{}
}
