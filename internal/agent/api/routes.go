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

// route is a method and a path with its handler. The table of all routes decides who may call what, which methods a
// path has, and what docs/http.md lists.
type route struct {
	// method PUT includes POST, as in Nomad; empty is any.
	method, path string
	callers      callers
	serve        handler
	// about is the text in docs/http.md.
	about string
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
	return []route{
		{"GET", "/v1/jobs", everyone, s.json(s.listJobs), "all jobs"},
		{"PUT", "/v1/jobs", trusted, s.json(s.runJob), "[run a job](#running-jobs)"},
		{"PUT", "/v1/jobs/parse", trusted, s.json(s.parseJob), "the JSON of a job file"},
		{"PUT", "/v1/validate/job", trusted, s.json(s.validateJob), "check a job; errors have their places, and are a " +
			"response of 200 with `ValidationErrors`"},
		{"GET", "/v1/job/{id}", everyone, job(s.readJob), "a job"},
		{"PUT", "/v1/job/{id}", trusted, s.json(s.runJob), "as `/v1/jobs`"},
		{"DELETE", "/v1/job/{id}", trusted, job(s.stopJob), "stop a job; `purge=true` removes it, too"},
		{"GET", "/v1/job/{id}/allocations", everyone, job(s.jobAllocations), "with `all=true` also those of a purged job " +
			"of the same name"},
		{"GET", "/v1/job/{id}/summary", everyone, job(s.jobSummary), "allocations by group and status"},
		{"GET", "/v1/job/{id}/evaluations", everyone, job(s.jobEvaluations), "decisions over the job"},
		{"GET", "/v1/job/{id}/scale", everyone, job(s.jobScale), "the counts of the groups"},
		{"PUT", "/v1/job/{id}/scale", trusted, s.json(s.scaleJob), "change the count of a group, " +
			"`{\"Count\": N, \"Target\": {\"Group\": NAME}}`; registering the job again sets it back to that of its file"},
		{"GET", "/v1/job/{id}/versions", everyone, job(s.jobVersions), "the current version"},
		{"GET", "/v1/job/{id}/submission", trusted, job(s.jobSubmission), "the text of the job file, or what the client " +
			"that registered the job sent as such"},
		{"PUT", "/v1/job/{id}/plan", trusted, s.json(s.planJob), "what registering the job would change: `Diff`, the " +
			"allocations of each group in `Annotations`, and in `FailedTGAllocs` the constraints that the node does not meet"},
		{"GET", "/v1/evaluations", everyone, s.json(s.listEvaluations), "scheduling decisions. The agent decides at once: " +
			"they are complete, except `blocked` until the node can run the rest of a job, `pending` until a failed " +
			"allocation is replaced"},
		{"GET", "/v1/evaluation/{id}", everyone, s.json(of(evaluationOf, readEvaluation)), "a decision"},
		{"GET", "/v1/evaluation/{id}/allocations", everyone, s.json(of(evaluationOf, evaluationAllocations)), "its job's " +
			"allocations"},
	}
}

func (s *Server) allocationRoutes() []route {
	const client, files = "/v1/client/allocation/{id}/", "/v1/client/fs/"
	whole := func(a func(*request, *allocation.Allocation) (any, error)) handler {
		return s.json(of(allocationOf, a))
	}
	alloc, history := s.jsonOfAllocation, s.jsonOfAllocation(s.history)
	return []route{
		{"GET", "/v1/allocations", everyone, s.json(s.listAllocations), "all allocations"},
		{"GET", "/v1/allocation/{id}", everyone, whole(s.readAllocation), "an allocation, with the states of its tasks and " +
			"their events; a `Terminated` has `ExitCode` and `Signal`, and its `Details` are `exit_code`, `signal`, " +
			"`oom_killed` and [its counters](diagnosis.md#counters-in-the-event-of-the-end)"},
		{"PUT", "/v1/allocation/{id}/stop", trusted, alloc(s.stopAllocation), "stop it; another takes its place, unless " +
			"its job was stopped"},
		{"GET", "/v1/client/allocations/stats", everyone, s.json(s.allStats), "[what the tasks use](#stats), of all " +
			"allocations that have not ended, by id"},
		{"GET", client + "stats", everyone, alloc(s.stats), "[what its tasks use](#stats): `task=&process=`; with " +
			"`at=TIME` the stored reading nearest to a time"},
		{"GET", client + "stats/history", everyone, history, "the stored readings, with gaps marked as gaps: " +
			"`since=&until=&step=&task=&process=&measurements=`"},
		{"GET", client + "history", everyone, history, "the same"},
		{"GET", client + "stats/stream", everyone, s.streamOf(s.statsStream), "every reading as a " +
			"server-sent event `stats`, the end as `end`"},
		{"GET", client + "commands", everyone, alloc(s.commands), "`task=`: what the ended processes of a running task " +
			"used so far, [by command](commands.md), or those of its last ended start. Without rows `reason` says why " +
			"they are not counted; 404 if the driver cannot count them"},
		{"GET", client + "record", everyone, alloc(s.record), "`task=`: the final record of the last start that has ended"},
		{"PUT", client + "restart", trusted, alloc(s.restartAllocation), "restart its running tasks, or one"},
		{"PUT", client + "signal", trusted, alloc(s.signalAllocation), "send a signal to its tasks, or one"},
		{"GET", client + "exec", trusted, s.stream(streams.Exec, s.exec), "run a command beside a task, over a WebSocket"},
		{"GET", files + "logs/{id}", trusted, s.streamOf(s.logs), "[logs](#logs-and-files): " +
			"`task=&type=stdout&follow=&origin=&offset=&plain=`"},
		{"GET", files + "ls/{id}", trusted, alloc(s.listFiles), "`path=`: a directory"},
		{"GET", files + "stat/{id}", trusted, alloc(s.statFile), "`path=`: a file"},
		{"GET", files + "cat/{id}", trusted, s.streamOf(s.readFile), "`path=`: the content of a file"},
		{"GET", files + "readat/{id}", trusted, s.streamOf(s.readFile), "a part of it: " +
			"`path=&offset=&limit=`"},
		{"GET", files + "stream/{id}", trusted, s.streamOf(s.streamFile), "`path=&origin=&offset=&follow=`: " +
			"its content, and what is added"},
		{"GET", "/v1/event/stream", everyone, s.stream(streams.Trusted, s.events), "[events](#events): `index=&topic=`"},
	}
}

func (s *Server) agentRoutes() []route {
	pool := object{"Name": "default", "Description": "this machine", "CreateIndex": 1, "ModifyIndex": 1}
	return []route{
		{"GET", "/v1/nodes", everyone, s.json(s.listNodes), "the one node"},
		{"GET", "/v1/node/{id}", everyone, s.json(s.readNode), "the same with its disk"},
		{"GET", "/v1/node/{id}/allocations", everyone, s.json(s.nodeAllocations), "all allocations, with their jobs"},
		{"GET", "/v1/client/stats", everyone, s.json(s.nodeStats), "what the node uses"},
		{"GET", "/v1/client/metadata", everyone, s.json(s.nodeMetadata), "`meta` of the configuration, for trusted callers"},
		{"PUT", "/v1/client/metadata", trusted, unsupported("dynamic node metadata"), unsupportedAbout},
		{"GET", "/v1/agent/self", everyone, s.json(s.self), "the agent, its own cost, whether it publishes and if not, why"},
		{"GET", "/v1/agent/health", everyone, s.json(s.health), "200, or 500 with the reason: the state cannot be " +
			"persisted (the disk is full, the data directory was deleted)"},
		{"GET", "/v1/agent/members", everyone, s.json(s.members), "the agent as the only member"},
		{"GET", "/v1/agent/servers", everyone, s.json(s.servers), "its address"},
		{"GET", "/v1/status/leader", everyone, s.json(s.leader), "its address"},
		{"GET", "/v1/status/peers", everyone, s.json(s.servers), "its address"},
		{"GET", "/v1/regions", everyone, s.json(s.regions), "its region"},
		{"GET", "/v1/namespaces", everyone, s.json(s.listNamespaces), "`default`, and those that jobs name"},
		{"GET", "/v1/namespace/{name}", everyone, s.json(s.readNamespace), "one of them"},
		{"GET", "/v1/node/pools", everyone, s.json(constant([]any{pool})), "`default`"},
		{"GET", "/v1/node/pool/default", everyone, s.json(constant(pool)), "the only node pool"},
		{"GET", "/v1/node/pool/default/jobs", everyone, s.json(s.listJobs), "all jobs"},
		{"GET", "/v1/node/pool/default/nodes", everyone, s.json(s.listNodes), "the one node"},
		{"GET", "/v1/metrics", everyone, s.readMetrics, "[metrics](metrics.md) in JSON; with `format=prometheus` as text, " +
			"415 while `prometheus_metrics` is off"},
		{"GET", "/metrics", everyone, s.prometheus, "the same as text"},
		{"GET", "/v1/acl/token/self", trusted, s.json(s.ownToken), "the agent's token, without its secret"},
		{"PUT", "/v1/system/gc", trusted, s.json(s.collectGarbage), "remove ended allocations"},
		{"GET", "/v1/client/gc", trusted, s.json(s.collectGarbage), "the same"},
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
			all = append(all, route{"GET", "/v1/" + path, everyone, s.json(constant(r.value)), "always empty"})
		}
	}
	for _, path := range []string{"deployment", "volume/csi", "volume/host", "plugin/csi", "service"} {
		what, _, _ := strings.Cut(path, "/")
		all = append(all, route{"GET", "/v1/" + path + "/{id}", everyone, s.json(func(*request) (any, error) {
			return nil, notFound(what + " not found: the embedded agent has none")
		}), "404"})
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
		all = append(all, route{"", "/v1/" + path, trusted, unsupported(strings.Join(words, " ")), unsupportedAbout})
	}
	return all
}

const unsupportedAbout = "501 with its name: only a cluster has it"

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
