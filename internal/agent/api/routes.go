// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"strings"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/streams"
)

// routes fills the table of paths. Methods other than those that stand here are answered with 405.
func (s *Server) routes() {
	s.jobRoutes()
	s.allocationRoutes()
	s.machineRoutes()
	s.absentRoutes()
	s.elsewhereRoutes()
	s.mux.HandleFunc(everythingElse, s.unknown)
	if s.options.Page != nil {
		s.mux.Handle("/", s.options.Page)
	}
}

// everythingElse is the pattern of paths below /v1 that stand nowhere.
const everythingElse = "/v1/"

// unknown answers what no other pattern matches: 405 if another method would, 404 else.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := s.mux.Handler(probe); pattern != everythingElse {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		s.fail(w, r, notFound("no such path in this API"))
		return
	}
	methods := strings.Join(allowed, ", ")
	w.Header().Set("Allow", methods)
	s.fail(w, r, &problem{http.StatusMethodNotAllowed, "method not allowed; use " + methods})
}

func (s *Server) jobRoutes() {
	s.mux.HandleFunc("GET /v1/jobs", s.json(s.listJobs))
	s.mux.HandleFunc("GET /v1/jobs/statuses", s.json(s.jobStatuses))
	s.mux.HandleFunc("POST /v1/jobs/statuses", s.json(s.jobStatuses))
	s.post("/v1/jobs", s.trustedJSON(s.runJob))
	s.post("/v1/jobs/parse", s.trustedJSON(s.parseJob))
	s.post("/v1/validate/job", s.trustedJSON(s.validateJob))
	s.mux.HandleFunc("GET /v1/job/{id}", s.json(of(jobOf, s.readJob)))
	s.post("/v1/job/{id}", s.trustedJSON(s.runJob))
	s.mux.HandleFunc("DELETE /v1/job/{id}", s.trustedJSON(of(jobOf, s.stopJob)))
	s.mux.HandleFunc("GET /v1/job/{id}/allocations", s.json(of(jobOf, s.jobAllocations)))
	s.mux.HandleFunc("GET /v1/job/{id}/summary", s.json(of(jobOf, s.jobSummary)))
	s.mux.HandleFunc("GET /v1/job/{id}/evaluations", s.json(of(jobOf, s.jobEvaluations)))
	s.mux.HandleFunc("GET /v1/job/{id}/deployment", s.json(of(jobOf, nothing[*snapshot.Job](nil))))
	s.mux.HandleFunc("GET /v1/job/{id}/deployments", s.json(of(jobOf, nothing[*snapshot.Job]([]any{}))))
	s.mux.HandleFunc("GET /v1/job/{id}/actions", s.json(of(jobOf, nothing[*snapshot.Job]([]any{}))))
	s.mux.HandleFunc("GET /v1/job/{id}/services", s.json(of(jobOf, nothing[*snapshot.Job]([]any{}))))
	s.mux.HandleFunc("GET /v1/job/{id}/scale", s.json(of(jobOf, s.jobScale)))
	s.mux.HandleFunc("GET /v1/job/{id}/versions", s.json(of(jobOf, s.jobVersions)))
	s.mux.HandleFunc("GET /v1/job/{id}/submission", s.trustedJSON(of(jobOf, s.jobSubmission)))
	s.post("/v1/job/{id}/plan", s.trustedJSON(s.planJob))
	s.post("/v1/job/{id}/scale", s.trustedJSON(s.scaleJob))
	s.mux.HandleFunc("GET /v1/evaluations", s.json(s.listEvaluations))
	s.mux.HandleFunc("GET /v1/evaluation/{id}", s.json(func(r *http.Request, now *snapshot.Agent) (any, error) { return evaluationOf(r, now) }))
	s.mux.HandleFunc("GET /v1/evaluation/{id}/allocations", s.json(of(evaluationOf, s.evaluationAllocations)))
	s.post("/v1/search", s.json(s.search))
	s.post("/v1/search/fuzzy", s.json(s.fuzzySearch))
}

func (s *Server) allocationRoutes() {
	const client = "/v1/client/allocation/{id}/"
	s.mux.HandleFunc("GET /v1/allocations", s.json(s.listAllocations))
	s.mux.HandleFunc("GET /v1/allocation/{id}", s.json(of(allocationOf, s.readAllocation)))
	s.post("/v1/allocation/{id}/stop", s.trustedJSON(of(allocationOf, s.stopAllocation)))
	s.mux.HandleFunc("GET /v1/allocation/{id}/services", s.json(of(allocationOf, nothing[*allocation.Allocation]([]any{}))))
	s.mux.HandleFunc("GET /v1/allocation/{id}/checks", s.json(of(allocationOf, nothing[*allocation.Allocation](map[string]any{}))))
	s.mux.HandleFunc("GET "+client+"checks", s.json(of(allocationOf, nothing[*allocation.Allocation](map[string]any{}))))
	s.mux.HandleFunc("GET /v1/client/allocations/stats", s.json(s.allStats))
	s.mux.HandleFunc("GET "+client+"stats", s.jsonOfAllocation(s.stats))
	s.mux.HandleFunc("GET "+client+"stats/history", s.jsonOfAllocation(s.history))
	s.mux.HandleFunc("GET "+client+"history", s.jsonOfAllocation(s.history))
	s.mux.HandleFunc("GET "+client+"stats/stream", s.stream(streams.Trusted, s.statsStream))
	s.mux.HandleFunc("GET "+client+"commands", s.json(of(allocationOf, s.commands)))
	s.mux.HandleFunc("GET "+client+"record", s.json(of(allocationOf, s.record)))
	s.post(client+"restart", s.trustedJSON(of(allocationOf, s.restartAllocation)))
	s.post(client+"signal", s.trustedJSON(of(allocationOf, s.signalAllocation)))
	s.mux.HandleFunc("GET "+client+"exec", s.stream(streams.Exec, s.exec))
	s.mux.HandleFunc("GET /v1/client/fs/logs/{id}", s.needsTrust(s.stream(streams.Trusted, s.logs)))
	s.mux.HandleFunc("GET /v1/client/fs/ls/{id}", s.trustedJSON(of(allocationOf, s.listFiles)))
	s.mux.HandleFunc("GET /v1/client/fs/stat/{id}", s.trustedJSON(of(allocationOf, s.statFile)))
	s.mux.HandleFunc("GET /v1/client/fs/cat/{id}", s.needsTrust(s.stream(streams.Trusted, s.readFile)))
	s.mux.HandleFunc("GET /v1/client/fs/readat/{id}", s.needsTrust(s.stream(streams.Trusted, s.readFile)))
	s.mux.HandleFunc("GET /v1/client/fs/stream/{id}", s.needsTrust(s.stream(streams.Trusted, s.streamFile)))
	s.mux.HandleFunc("GET /v1/event/stream", s.stream(streams.Trusted, s.events))
}

func (s *Server) machineRoutes() {
	s.mux.HandleFunc("GET /v1/agent/health", s.json(s.health))
	s.mux.HandleFunc("GET /v1/agent/self", s.json(s.self))
	s.mux.HandleFunc("GET /v1/agent/members", s.json(s.members))
	s.mux.HandleFunc("GET /v1/agent/servers", s.json(s.servers))
	s.mux.HandleFunc("GET /v1/nodes", s.json(s.listNodes))
	s.mux.HandleFunc("GET /v1/node/{id}", s.json(s.readNode))
	s.mux.HandleFunc("GET /v1/node/{id}/allocations", s.json(s.nodeAllocations))
	s.mux.HandleFunc("GET /v1/client/stats", s.json(s.nodeStats))
	s.mux.HandleFunc("GET /v1/client/metadata", s.json(s.nodeMetadata))
	s.post("/v1/client/metadata", s.needsTrust(s.notHere(elsewhere("dynamic node metadata"))))
	s.mux.HandleFunc("GET /v1/metrics", s.readMetrics)
	s.mux.HandleFunc("GET /metrics", s.prometheus)
	s.mux.HandleFunc("GET /v1/status/leader", s.json(s.leader))
	s.mux.HandleFunc("GET /v1/status/peers", s.json(s.servers))
	s.mux.HandleFunc("GET /v1/regions", s.json(s.regions))
	s.mux.HandleFunc("GET /v1/namespaces", s.json(s.namespaces))
	s.mux.HandleFunc("GET /v1/namespace/{name}", s.json(s.namespace))
	s.post("/v1/system/gc", s.trustedJSON(s.collectGarbage))
	s.mux.HandleFunc("GET /v1/client/gc", s.ownSite(s.trustedJSON(s.collectGarbage)))
}

// absentRoutes are lists of what the embedded agent has none of: empty, and well formed.
func (s *Server) absentRoutes() {
	for _, path := range []string{
		"deployments", "volumes", "volumes/external", "volumes/snapshots", "plugins", "services", "vars", "recommendations",
		"scaling/policies", "acl/policies", "acl/tokens", "quotas", "sentinel/policies",
	} {
		s.mux.HandleFunc("GET /v1/"+path, s.json(func(*http.Request, *snapshot.Agent) (any, error) { return []any{}, nil }))
	}
	s.mux.HandleFunc("GET /v1/node/pools", s.json(s.nodePools))
	s.mux.HandleFunc("GET /v1/node/pool/default", s.json(func(*http.Request, *snapshot.Agent) (any, error) { return defaultPool(), nil }))
	s.mux.HandleFunc("GET /v1/node/pool/default/jobs", s.json(s.listJobs))
	s.mux.HandleFunc("GET /v1/node/pool/default/nodes", s.json(s.listNodes))
	s.mux.HandleFunc("GET /v1/acl/token/self", s.trustedJSON(s.ownToken))
	for path, what := range map[string]string{"deployment": "deployment", "volume/csi": "volume", "volume/host": "volume", "plugin/csi": "plugin", "service": "service"} {
		s.mux.HandleFunc("GET /v1/"+path+"/{id}", s.json(func(*http.Request, *snapshot.Agent) (any, error) {
			return nil, notFound(what + " not found: the embedded agent has none")
		}))
	}
}

// elsewhereRoutes answer what only a cluster can do, by its name.
func (s *Server) elsewhereRoutes() {
	for what, paths := range map[string][]string{
		"job dispatch":            {"job/{id}/dispatch"},
		"job revert":              {"job/{id}/revert", "job/{id}/stable"},
		"job eval":                {"job/{id}/evaluate"},
		"job tag":                 {"job/{id}/versions/{name}/tag"},
		"periodic jobs":           {"job/{id}/periodic/force"},
		"job actions":             {"job/{id}/action"},
		"node drain":              {"node/{id}/drain"},
		"node eligibility":        {"node/{id}/eligibility"},
		"node purge":              {"node/{id}/purge"},
		"node evaluation":         {"node/{id}/evaluate"},
		"schedules of tasks":      {"client/allocation/{id}/pause"},
		"agent log streams":       {"agent/monitor"},
		"profiles":                {"agent/pprof/{name}"},
		"joining servers":         {"agent/join", "agent/force-leave"},
		"scheduler configuration": {"operator/scheduler/configuration"},
		"Raft":                    {"operator/raft/configuration", "operator/raft/peer", "operator/snapshot"},
		"Autopilot":               {"operator/autopilot/configuration", "operator/autopilot/health"},
		"licenses":                {"operator/license"},
		"keyrings":                {"operator/keyring/keys", "operator/keyring/rotate"},
		"deployments":             {"deployment/promote/{id}", "deployment/fail/{id}", "deployment/pause/{id}", "deployment/unblock/{id}"},
		"namespaces":              {"namespace"},
		"variables":               {"var/{path...}"},
		"ACL policies and tokens": {"acl/bootstrap", "acl/token", "acl/policy/{name}", "acl/login", "acl/roles", "acl/auth-methods"},
		"summary reconciliation":  {"system/reconcile/summaries"},
		"plans of volume claims":  {"volumes/claims"},
	} {
		h := s.needsTrust(s.notHere(elsewhere(what)))
		for _, path := range paths {
			for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
				s.mux.HandleFunc(method+" /v1/"+path, h)
			}
		}
	}
}

// elsewhere says that only a cluster does something.
func elsewhere(what string) string {
	return "not supported by the embedded agent: " + what + "; use a Nomad cluster"
}

// post serves PUT and POST, which Nomad takes for the same.
func (s *Server) post(path string, h http.HandlerFunc) {
	s.mux.HandleFunc("PUT "+path, h)
	s.mux.HandleFunc("POST "+path, h)
}

// notHere answers what Nomad does and this agent does not.
func (s *Server) notHere(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, &problem{http.StatusNotImplemented, text}) }
}
