// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"

	"github.com/tachograph/tacho/internal/agent/alloc"
)

// reservations are the cores and the ports of this node that allocations have.
type reservations struct {
	// all are the cores of the node, cores those that are taken.
	all   []int
	cores map[int]bool
	// ports say whose each port is.
	ports map[int]string
}

// reservations returns what is taken. What a job's own allocations have that are being stopped, or are among stop, is
// free for those that take their places.
func (a *Agent) reservations(jobID string, stop []*alloc.Alloc) *reservations {
	r := &reservations{all: a.host.Node.Resources.Cores, cores: make(map[int]bool), ports: make(map[int]string)}
	for _, l := range a.list() {
		if l.Dead() || l.Job.ID == jobID && (l.StopReason() != "" || slices.Contains(stop, l)) {
			continue
		}
		own := l.Persisted()
		for _, cores := range own.Cores {
			for _, core := range cores {
				r.cores[core] = true
			}
		}
		for _, port := range own.Ports {
			r.ports[port] = "allocation " + l.ID
		}
	}
	return r
}

// take gives a vacancy its ports, and cores for its tasks that want some for themselves; all or nothing.
func (r *reservations) take(v *vacancy) error {
	v.cores, v.ports = make(map[string][]int), make(map[string]int)
	err := r.takeCores(v)
	if err == nil {
		err = r.takePorts(v)
	}
	if err != nil {
		r.release(v)
	}
	return err
}

func (r *reservations) takeCores(v *vacancy) error {
	for _, t := range v.group.Tasks {
		for _, core := range r.all {
			if len(v.cores[t.Name]) < t.Resources.Cores && !r.cores[core] {
				v.cores[t.Name], r.cores[core] = append(v.cores[t.Name], core), true
			}
		}
		if free := len(v.cores[t.Name]); free < t.Resources.Cores {
			return fmt.Errorf("task %s of group %s requests %d cores; %d are free",
				t.Name, v.group.Name, t.Resources.Cores, free)
		}
	}
	return nil
}

func (r *reservations) takePorts(v *vacancy) error {
	for _, p := range v.group.Ports {
		port := p.Value
		if owner, used := r.ports[port]; port != 0 && used {
			return fmt.Errorf("port %d (%s) of group %s is used by %s", port, p.Label, v.group.Name, owner)
		}
		if port == 0 {
			if port = freePort(r.ports); port == 0 {
				return fmt.Errorf("port %s of group %s: all ports from %d to %d are used",
					p.Label, v.group.Name, alloc.FirstPort, alloc.LastPort)
			}
		}
		v.ports[p.Label], r.ports[port] = port, "another allocation of the job"
	}
	return nil
}

// release takes back what a vacancy was given.
func (r *reservations) release(v *vacancy) {
	for _, cores := range v.cores {
		for _, core := range cores {
			delete(r.cores, core)
		}
	}
	for _, port := range v.ports {
		delete(r.ports, port)
	}
	v.cores, v.ports = nil, nil
}

// freePort is a port that no allocation has and that nothing listens on now; 0 if there is none.
func freePort(taken map[int]string) int {
	for _, offset := range rand.Perm(alloc.LastPort - alloc.FirstPort + 1) {
		port := alloc.FirstPort + offset
		if _, used := taken[port]; used {
			continue
		}
		if listener, err := net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil {
			_ = listener.Close()
			return port
		}
	}
	return 0
}
