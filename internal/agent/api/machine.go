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

// health is GET /v1/agent/health. An agent that is not healthy answers 500 with the same JSON.
func (s *Server) health(*http.Request, *snapshot.Agent) (any, error) {
	cause := s.agent.Health()
	ok := map[string]any{"ok": cause == nil, "message": "ok"}
	both := map[string]any{"client": ok, "server": ok}
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

// addressOf is where the agent listens, as clients reach it from this machine; empty if it listens on its socket only.
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

// self is GET /v1/agent/self: with trust the configuration, without it the switches that explain the numbers.
func (s *Server) self(r *http.Request, now *snapshot.Agent) (any, error) {
	c, n := now.Config, now.Node
	shown := map[string]any{
		"Name": n.Name, "Datacenter": c.Datacenter, "Region": c.Region,
		"Version": map[string]any{"Version": version.String()}, "Telemetry": telemetryJSON(&c.Telemetry),
		"Server": map[string]any{"Enabled": false}, "Client": map[string]any{"Enabled": true},
	}
	if Trusted(r.Context()) {
		shown["DataDir"], shown["BindAddr"], shown["Ports"] = c.DataDir, c.BindAddr, c.Ports
		shown["LogLevel"], shown["Files"], shown["DevMode"] = c.LogLevel, c.Files, c.Dev
	}
	cost := s.agent.Cost()
	return map[string]any{
		"config": shown,
		"member": memberOf(now),
		"stats": map[string]map[string]string{
			"client":  {"node_id": n.ID, "known_servers": "", "num_allocations": strconv.Itoa(len(now.Allocations))},
			"runtime": {"arch": runtime.GOARCH, "kernel.name": runtime.GOOS, "goroutines": strconv.Itoa(cost.Goroutines), "version": runtime.Version()},
		},
		"Tacho": map[string]any{
			"publishing": now.NotPublishing == "", "reason": now.NotPublishing, "trusted": Trusted(r.Context()), "version": version.String(),
			"history": map[string]any{"span_seconds": c.History.Span.Seconds(), "interval_seconds": c.History.Interval.Seconds()},
			"cost": map[string]any{
				"cpu_seconds_total": cost.CPUSeconds, "resident_memory_bytes": nullIfZero(cost.RSSBytes), "goroutines": cost.Goroutines,
				"uptime_seconds": cost.Uptime.Seconds(), "samples_total": cost.Samples, "samples_late_total": cost.Backlogged,
				"history_dropped_total": cost.HistoryDropped, "errors_total": cost.Errors,
			},
		},
	}, nil
}

// nullIfZero is the JSON of a number that is 0 if it is not known.
func nullIfZero(v int64) any {
	if v == 0 {
		return nil
	}
	return v
}

func telemetryJSON(t *config.Telemetry) map[string]any {
	return map[string]any{
		"CollectionInterval": t.CollectionInterval.String(), "PublishAllocationMetrics": t.PublishAllocationMetrics,
		"PublishNodeMetrics": t.PublishNodeMetrics, "PrometheusMetrics": t.PrometheusMetrics,
		"AllocationDetail": t.AllocationDetail, "NomadNames": t.NomadNames,
	}
}

func memberOf(now *snapshot.Agent) map[string]any {
	n, c := now.Node, now.Config
	return map[string]any{
		"Name": n.Name, "Addr": c.BindAddr, "Port": max(0, c.Ports.HTTP), "Status": "alive",
		"Tags":        map[string]string{"dc": c.Datacenter, "region": c.Region, "build": version.String(), "role": "tacho"},
		"ProtocolMin": 1, "ProtocolMax": 5, "ProtocolCur": 2, "DelegateMin": 2, "DelegateMax": 5, "DelegateCur": 4,
	}
}

// members is GET /v1/agent/members: this agent.
func (s *Server) members(_ *http.Request, now *snapshot.Agent) (any, error) {
	c := now.Config
	return map[string]any{
		"ServerName": now.Node.Name, "ServerRegion": c.Region, "ServerDC": c.Datacenter, "Members": []any{memberOf(now)},
	}, nil
}

// leader is GET /v1/status/leader: this agent decides.
func (s *Server) leader(_ *http.Request, now *snapshot.Agent) (any, error) {
	return addressOf(&now.Config), nil
}

// servers is GET /v1/agent/servers and GET /v1/status/peers.
func (s *Server) servers(_ *http.Request, now *snapshot.Agent) (any, error) {
	return []string{addressOf(&now.Config)}, nil
}

// regions is GET /v1/regions.
func (s *Server) regions(_ *http.Request, now *snapshot.Agent) (any, error) {
	return []string{now.Config.Region}, nil
}

func namespaceJSON(name string) map[string]any {
	return map[string]any{"Name": name, "Description": "", "Quota": "", "CreateIndex": 1, "ModifyIndex": 1}
}

// namespaces is GET /v1/namespaces: default, and whatever the job files name.
func (s *Server) namespaces(r *http.Request, now *snapshot.Agent) (any, error) {
	list := []any{}
	for _, name := range namespaceNames(now) {
		if strings.HasPrefix(name, r.URL.Query().Get("prefix")) {
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

// namespace is GET /v1/namespace/NAME.
func (s *Server) namespace(r *http.Request, now *snapshot.Agent) (any, error) {
	name := r.PathValue("name")
	if !slices.Contains(namespaceNames(now), name) {
		return nil, notFound("no job in this namespace")
	}
	return namespaceJSON(name), nil
}

// nodePools is GET /v1/node/pools.
func (s *Server) nodePools(_ *http.Request, _ *snapshot.Agent) (any, error) {
	return []any{defaultPool()}, nil
}

func defaultPool() map[string]any {
	return map[string]any{"Name": "default", "Description": "this machine", "CreateIndex": 1, "ModifyIndex": 1}
}

// ownToken is GET /v1/acl/token/self: whoever is trusted may do everything.
func (s *Server) ownToken(_ *http.Request, now *snapshot.Agent) (any, error) {
	return map[string]any{
		"AccessorID": now.Node.ID, "SecretID": "", "Name": "the agent's token", "Type": "management", "Policies": []string{}, "Roles": []any{},
		"Global": true, "CreateTime": now.Node.StartedAt, "CreateIndex": 1, "ModifyIndex": 1,
	}, nil
}

// collectGarbage is PUT /v1/system/gc: all ended allocations are removed.
func (s *Server) collectGarbage(_ *http.Request, _ *snapshot.Agent) (any, error) {
	removed, err := s.agent.CollectGarbage()
	return map[string]any{"Tacho": map[string]any{"Removed": removed}}, err
}

// readMetrics is GET /v1/metrics.
func (s *Server) readMetrics(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Query().Get("format") {
	case "":
		s.metrics.ServeJSON(w, r)
	case "prometheus":
		s.prometheus(w, r)
	default:
		s.fail(w, r, badRequest("invalid format: must be prometheus, or absent for JSON"))
	}
}

// noAllocation is the id of none: a snapshot of it has the configuration only.
const noAllocation = ""

// prometheus is GET /metrics, and /v1/metrics?format=prometheus.
func (s *Server) prometheus(w http.ResponseWriter, r *http.Request) {
	if !s.agent.Snapshot(noAllocation).Config.Telemetry.PrometheusMetrics {
		s.fail(w, r, &problem{http.StatusUnsupportedMediaType, "Prometheus is not enabled: telemetry { prometheus_metrics = true }"})
		return
	}
	s.metrics.ServeHTTP(w, r)
}
