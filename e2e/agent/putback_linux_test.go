// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"
	"net/http"
	"slices"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// interpolated has in its configuration what a job file says in more ways than JSON: functions, locals, and names for
// the task's shell.
const interpolated = `
locals {
  where = "in ${NOMAD_TASK_DIR}"
}
job "interpolated" {
  meta {
    owner = "us"
  }
  group "g" {
    count = 2
    network {
      port "b" {}
      port "a" {}
    }
    task "t" {
      driver = "tacho"
      env {
        NAME = "${upper(NOMAD_TASK_NAME)} $${HOME}"
      }
      config {
        command = "/bin/sh"
        args = ["-c", "echo ${local.where} $${HOME} ${NOMAD_ALLOC_INDEX == "0" ? "first" : "other"}; exec sleep 1000"]
      }
      resources {
        memory = 32
      }
    }
  }
  group "other" {
    task "t" {
      driver = "tacho"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
    }
  }
}
`

// TestPutBack registers a job as clients do that have read it in JSON: nothing is replaced and there is no new
// version, also after a kill of the agent. With another count only that is done.
func TestPutBack(t *testing.T) {
	h := hostWithAgent(t, "")
	h.run(interpolated)
	ids := func() (all []string) {
		for _, a := range h.allocations() {
			all = append(all, a.ID)
		}
		slices.Sort(all)
		return all
	}
	before := ids()
	running := func(count int) {
		t.Helper()
		h.eventually("all running", func() bool {
			n := 0
			for _, a := range h.allocations() {
				if a.ClientStatus == "running" {
					n++
				}
			}
			return n == count
		})
	}
	running(3)
	var read map[string]any
	h.get("/v1/job/interpolated", &read)
	index := read["JobModifyIndex"]
	put := func() (now any) {
		t.Helper()
		text := testkit.Value(h.call(http.MethodPut, "/v1/jobs", map[string]any{"Job": read}))(t)
		var registered struct{ JobModifyIndex any }
		testkit.Must(t, json.Unmarshal(text, &registered))
		return registered.JobModifyIndex
	}
	for _, when := range []string{"at once", "after a kill"} {
		if now := put(); now != index || !slices.Equal(ids(), before) {
			t.Errorf("%s: JobModifyIndex %v, was %v; allocations %v, were %v", when, now, index, ids(), before)
		}
		h.end(syscall.SIGKILL)
		h.begin()
	}
	group := read["TaskGroups"].([]any)[0].(map[string]any)
	group["Count"] = 3
	if now := put(); now == index {
		t.Error("another count is no new version")
	}
	kept := 0
	for _, id := range before {
		if slices.Contains(ids(), id) {
			kept++
		}
	}
	if kept != 3 || len(ids()) != 4 {
		t.Errorf("allocations %v, were %v", ids(), before)
	}
	running(4)
	h.stop("interpolated")
	h.get("/v1/job/interpolated", &read) // with Stop
	put()
	if h.get("/v1/job/interpolated", &read); read["Stop"] != true || len(ids()) != 4 {
		t.Errorf("a stopped job that is put back: Stop %v, allocations %v", read["Stop"], ids())
	}
}
