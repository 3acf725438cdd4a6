// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/streams"
)

// route is a method and a path with its handler. The table of all routes decides who may call what, and which methods
// a path has; docs/http.md says what each is for.
type route struct {
	// method PUT includes POST, as in Nomad; empty is any.
	method, path string
	callers      callers
	serve        handler
}

// callers are those that a route serves.
type callers string

const (
	// everyone is served, untrusted callers with redacted values.
	everyone callers = "everyone"
	trusted  callers = "trusted"
)

func (s *Server) routes() []route {
	all := append(s.jobRoutes(), s.allocationRoutes()...)
	all = append(all, s.agentRoutes()...)
	return append(append(all, s.emptyRoutes()...), s.unsupportedRoutes()...)
}

func (s *Server) jobRoutes() []route {
	job := func(a func(*request, *snapshot.Job) (any, error)) handler { return s.json(of(jobOf, a)) }
	file := func(a func(*request, *registration) (any, error)) handler { return s.json(of(registrationOf, a)) }
	return []route{
		{"GET", "/v1/jobs", everyone, s.json(s.listJobs)},
		{"PUT", "/v1/jobs", trusted, file(s.runJob)},
		{"PUT", "/v1/jobs/parse", trusted, s.json(s.parseJob)},
		{"PUT", "/v1/validate/job", trusted, file(s.validateJob)},
		{"GET", "/v1/job/{id}", everyone, job(s.readJob)},
		{"PUT", "/v1/job/{id}", trusted, file(s.runJob)},
		{"DELETE", "/v1/job/{id}", trusted, job(s.stopJob)},
		{"GET", "/v1/job/{id}/allocations", everyone, job(s.jobAllocations)},
		{"GET", "/v1/job/{id}/summary", everyone, job(s.jobSummary)},
		{"GET", "/v1/job/{id}/evaluations", everyone, job(s.jobEvaluations)},
		{"GET", "/v1/job/{id}/scale", everyone, job(s.jobScale)},
		{"PUT", "/v1/job/{id}/scale", trusted, s.json(s.scaleJob)},
		{"GET", "/v1/job/{id}/versions", everyone, job(s.jobVersions)},
		{"GET", "/v1/job/{id}/submission", trusted, job(s.jobSubmission)},
		{"PUT", "/v1/job/{id}/plan", trusted, file(s.planJob)},
		{"GET", "/v1/evaluations", everyone, s.json(s.listEvaluations)},
		{"GET", "/v1/evaluation/{id}", everyone, s.json(of(evaluationOf, readEvaluation))},
		{"GET", "/v1/evaluation/{id}/allocations", everyone, s.json(of(evaluationOf, evaluationAllocations))},
	}
}

func (s *Server) allocationRoutes() []route {
	const client, files = "/v1/client/allocation/{id}/", "/v1/client/fs/"
	whole := func(a func(*request, *allocation.Allocation) (any, error)) handler {
		return s.json(of(allocationOf, a))
	}
	alloc, history := s.jsonOfAllocation, s.jsonOfAllocation(s.history)
	return []route{
		{"GET", "/v1/allocations", everyone, s.json(s.listAllocations)},
		{"GET", "/v1/allocation/{id}", everyone, whole(s.readAllocation)},
		{"PUT", "/v1/allocation/{id}/stop", trusted, alloc(s.stopAllocation)},
		{"GET", "/v1/client/allocations/stats", everyone, s.json(s.allStats)},
		{"GET", client + "stats", everyone, alloc(s.stats)},
		{"GET", client + "stats/history", everyone, history},
		{"GET", client + "history", everyone, history},
		{"GET", client + "stats/stream", everyone, s.streamOf(s.statsStream)},
		{"GET", client + "commands", everyone, alloc(s.commands)},
		{"GET", client + "record", everyone, alloc(s.record)},
		{"PUT", client + "restart", trusted, alloc(s.restartAllocation)},
		{"PUT", client + "signal", trusted, alloc(s.signalAllocation)},
		{"GET", client + "exec", trusted, s.stream(streams.Exec, s.exec)},
		{"GET", files + "logs/{id}", trusted, s.streamOf(s.logs)},
		{"GET", files + "ls/{id}", trusted, alloc(s.listFiles)},
		{"GET", files + "stat/{id}", trusted, alloc(s.statFile)},
		{"GET", files + "cat/{id}", trusted, s.streamOf(s.readFile)},
		{"GET", files + "readat/{id}", trusted, s.streamOf(s.readFile)},
		{"GET", files + "stream/{id}", trusted, s.streamOf(s.streamFile)},
		{"GET", "/v1/event/stream", everyone, s.stream(streams.Trusted, s.events)},
	}
}

func (s *Server) agentRoutes() []route {
	pool := object{"Name": "default", "Description": "this machine", "CreateIndex": 1, "ModifyIndex": 1}
	return []route{
		{"GET", "/v1/nodes", everyone, s.json(s.listNodes)},
		{"GET", "/v1/node/{id}", everyone, s.json(of(askedNode, s.readNode))},
		{"GET", "/v1/node/{id}/allocations", everyone, s.json(of(askedNode, s.nodeAllocations))},
		{"GET", "/v1/client/stats", everyone, s.json(s.nodeStats)},
		{"GET", "/v1/client/metadata", everyone, s.json(s.nodeMetadata)},
		{"PUT", "/v1/client/metadata", trusted, unsupported("dynamic node metadata")},
		{"GET", "/v1/agent/self", everyone, s.json(s.self)},
		{"GET", "/v1/agent/health", everyone, s.json(s.health)},
		{"GET", "/v1/agent/members", everyone, s.json(s.members)},
		{"GET", "/v1/agent/servers", everyone, s.json(s.servers)},
		{"GET", "/v1/status/leader", everyone, s.json(s.leader)},
		{"GET", "/v1/status/peers", everyone, s.json(s.servers)},
		{"GET", "/v1/regions", everyone, s.json(s.regions)},
		{"GET", "/v1/namespaces", everyone, s.json(s.listNamespaces)},
		{"GET", "/v1/namespace/{name}", everyone, s.json(s.readNamespace)},
		{"GET", "/v1/node/pools", everyone, s.json(constant([]any{pool}))},
		{"GET", "/v1/node/pool/default", everyone, s.json(constant(pool))},
		{"GET", "/v1/node/pool/default/jobs", everyone, s.json(s.listJobs)},
		{"GET", "/v1/node/pool/default/nodes", everyone, s.json(s.listNodes)},
		{"GET", "/v1/metrics", everyone, s.readMetrics},
		{"GET", "/metrics", everyone, s.prometheus},
		{"GET", "/v1/acl/token/self", trusted, s.json(s.ownToken)},
		{"PUT", "/v1/system/gc", trusted, s.json(s.collectGarbage)},
		{"GET", "/v1/client/gc", trusted, s.json(s.collectGarbage)},
	}
}

func constant(value any) answer { return func(*request) (any, error) { return value, nil } }

// emptyRoutes list what a single node does not have.
func (s *Server) emptyRoutes() (all []route) {
	for _, r := range []struct {
		value any
		paths string
	}{
		{nil, "job/{id}/deployment"},
		{object{}, "allocation/{id}/checks client/allocation/{id}/checks"},
		{[]any{}, "job/{id}/deployments job/{id}/actions job/{id}/services allocation/{id}/services deployments volumes " +
			"volumes/external volumes/snapshots plugins services vars recommendations scaling/policies acl/policies " +
			"acl/tokens quotas sentinel/policies"},
	} {
		for path := range strings.FieldsSeq(r.paths) {
			all = append(all, route{"GET", "/v1/" + path, everyone, s.json(constant(r.value))})
		}
	}
	for _, path := range []string{"deployment", "volume/csi", "volume/host", "plugin/csi", "service"} {
		what, _, _ := strings.Cut(path, "/")
		all = append(all, route{"GET", "/v1/" + path + "/{id}", everyone, s.json(func(*request) (any, error) {
			return nil, notFound(what + " not found: the embedded agent has none")
		})})
	}
	return all
}

// unsupportedRoutes name what only a cluster can do.
func (s *Server) unsupportedRoutes() (all []route) {
	const paths = `
		acl/auth-methods acl/bootstrap acl/login acl/policy/{name} acl/roles acl/token agent/force-leave agent/join
		agent/monitor agent/pprof/{name} client/allocation/{id}/pause deployment/fail/{id} deployment/pause/{id}
		deployment/promote/{id} deployment/unblock/{id} job/{id}/action job/{id}/dispatch job/{id}/evaluate
		job/{id}/periodic/force job/{id}/revert job/{id}/stable job/{id}/versions/{name}/tag namespace node/{id}/drain
		node/{id}/eligibility node/{id}/evaluate node/{id}/purge operator/autopilot/configuration
		operator/autopilot/health operator/keyring/keys operator/keyring/rotate operator/license
		operator/raft/configuration operator/raft/peer operator/scheduler/configuration operator/snapshot search
		search/fuzzy system/reconcile/summaries var/{path...} volumes/claims`
	for path := range strings.FieldsSeq(paths) {
		words := slices.DeleteFunc(strings.Split(path, "/"), func(word string) bool { return word[0] == '{' })
		all = append(all, route{"", "/v1/" + path, trusted, unsupported(strings.Join(words, " "))})
	}
	return all
}

func unsupported(what string) handler {
	text := "not supported by the embedded agent: " + what + "; use a Nomad cluster"
	return func(http.ResponseWriter, *request) error { return &problem{http.StatusNotImplemented, text} }
}

// register puts the table of routes into the mux.
func (s *Server) register() {
	for _, r := range s.routes() {
		s.mux.HandleFunc(strings.TrimSpace(r.method+" "+r.path), s.handlerOf(r))
		if r.method == http.MethodPut {
			s.mux.HandleFunc(http.MethodPost+" "+r.path, s.handlerOf(r))
		}
	}
	s.mux.HandleFunc(everythingElse, s.unknown)
	if s.options.Page != nil {
		s.mux.Handle("/", s.options.Page)
	}
}

func (s *Server) handlerOf(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		q, err := newRequest(request), errUntrusted
		if q.trusted || r.callers != trusted {
			err = r.serve(w, q)
		}
		if err != nil {
			s.fail(w, request, err)
		}
	}
}

// everythingElse is the pattern of unknown paths below /v1.
const everythingElse = "/v1/"

// unknown responds to what no other pattern matches: 405 if another method would, otherwise 404.
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
