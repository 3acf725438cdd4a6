// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"net/http"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestKilledOverReplacement kills the agent at steps of an allocation that a user stops: another takes its place, and
// only one.
func TestKilledOverReplacement(t *testing.T) {
	rig.Require(t)
	binary := rig.BuildWithFailpoints(t)
	for _, step := range []string{"agent.register.persisted", "agent.alloc.finish", "agent.exited.recorded"} {
		t.Run(step, func(t *testing.T) {
			c := newChaos(t, binary)
			testkit.Must(t, c.put("witness"))
			c.awaitStarts(1)
			c.failpoint = rig.Failpoint{Name: step, Action: "kill"}
			c.arm()
			_, _ = c.call(http.MethodPost, "/v1/allocation/"+c.list()[0].ID+"/stop", nil) // the agent may die over it
			c.eventually("the step", func() bool { c.mend(); return c.chaotic.Reached(c.failpoint) == 1 })
			c.awaitStarts(2)
			c.eventually("one allocation that runs, and one that has ended", func() bool {
				c.mend()
				status := map[string]int{}
				for _, a := range c.list() {
					status[a.ClientStatus]++
				}
				return status["running"] == 1 && status["complete"] == 1 && len(status) == 2
			})
			stopped := c.insistOnStop()
			c.checkNothingLeft(stopped)
		})
	}
}
