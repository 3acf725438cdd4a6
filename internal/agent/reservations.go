// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"

	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/procstats"
)

// reservations are the cores and the ports of this node that allocations have.
type reservations struct {
	// all are the cores of the node; cores are the taken ones.
	all   []int
	cores map[int]bool
	// ports has the owner of each taken port.
	ports map[int]string
}

// reservations returns what is taken. Allocations of the job itself that are being stopped, or are among stop, take
// nothing: their successors get the same.
func (a *Agent) reservations(jobID string, stop []*alloc.Alloc) *reservations {
	r := &reservations{all: a.host.Node.Resources.Cores, cores: make(map[int]bool), ports: make(map[int]string)}
	for _, l := range a.list() {
		if l.Dead() || l.JobID == jobID && (l.StopReason() != "" || slices.Contains(stop, l)) {
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

// take reserves the ports of a vacancy, and the cores that its tasks request: all or none.
func (r *reservations) take(v *vacancy) error {
	rest := &reservations{all: r.all, cores: maps.Clone(r.cores), ports: maps.Clone(r.ports)}
	v.cores, v.ports = make(map[string][]int), make(map[string]int)
	err := rest.takeCores(v)
	if err == nil {
		err = rest.takePorts(v)
	}
	if err != nil {
		v.cores, v.ports = nil, nil
		return err
	}
	*r = *rest
	return nil
}

func (r *reservations) takeCores(v *vacancy) error {
	for _, t := range v.group.Tasks {
		for _, core := range r.all {
			if len(v.cores[t.Name]) < t.Resources.Cores && !r.cores[core] {
				v.cores[t.Name], r.cores[core] = append(v.cores[t.Name], core), true
			}
		}
		if free := len(v.cores[t.Name]); free < t.Resources.Cores {
			return fmt.Errorf("task %s of group %s requests %s; free: %d",
				t.Name, v.group.Name, procstats.Counted(t.Resources.Cores, "core", "cores"), free)
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

// freePort returns a port that no allocation has and that no process listens on; 0 if all are taken.
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
