// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/internal/agent/config"
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

// addressOf returns the agent's address for clients on this machine; empty if it listens on its socket only.
func addressOf(c *config.Config) string {
	if c.Ports.HTTP < 0 {
		return ""
	}
	host := c.BindAddr
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(c.Ports.HTTP))
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
	shown := object{
		"cpu_seconds_total": cost.CPUSeconds, "resident_memory_bytes": nil, "goroutines": cost.Goroutines,
		"uptime_seconds": cost.Uptime.Seconds(), "samples_total": cost.Samples, "samples_late_total": cost.Backlogged,
		"history_dropped_total": cost.HistoryDropped, "errors_total": cost.Errors,
	}
	if cost.RSSBytes != 0 {
		shown["resident_memory_bytes"] = cost.RSSBytes
	}
	return shown
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

func (s *Server) leader(q *request) (any, error) { return addressOf(&q.now.Config), nil }

func (s *Server) servers(q *request) (any, error) { return []string{addressOf(&q.now.Config)}, nil }

func (s *Server) regions(q *request) (any, error) { return []string{q.now.Config.Region}, nil }

func namespaceJSON(name string) object {
	return object{"Name": name, "Description": "", "Quota": "", "CreateIndex": 1, "ModifyIndex": 1}
}

func (s *Server) namespaces(q *request) (any, error) {
	list := []any{}
	for _, name := range namespaceNames(q.now) {
		if strings.HasPrefix(name, q.values.Get("prefix")) {
			list = append(list, namespaceJSON(name))
		}
	}
	return list, nil
}

func namespaceNames(now *snapshot.Agent) []string {
	names := []string{"default"}
	for _, j := range now.Jobs {
		if j.Job.Namespace != "" && !slices.Contains(names, j.Job.Namespace) {
			names = append(names, j.Job.Namespace)
		}
	}
	return names
}

func (s *Server) namespace(q *request) (any, error) {
	name := q.PathValue("name")
	if !slices.Contains(namespaceNames(q.now), name) {
		return nil, notFound("no job in this namespace")
	}
	return namespaceJSON(name), nil
}

func defaultPool() object {
	return object{"Name": "default", "Description": "this machine", "CreateIndex": 1, "ModifyIndex": 1}
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
	case "prometheus":
		return s.prometheus(w, q)
	default:
		return badRequest("invalid format: must be prometheus, or absent for JSON")
	}
	return nil
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
