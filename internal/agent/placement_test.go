// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
)

func TestMeets(t *testing.T) {
	names := map[string]string{
		"attr.kernel.name": "linux", "attr.cpu.numcores": "10", "attr.nomad.version": "2.0.5", "attr.kernel.version": "6.1.0-13-amd64",
		"meta.tags": "a, b,c",
	}
	for _, test := range []struct {
		left, operand, right string
		count                int
		want                 bool
	}{
		{"${attr.kernel.name}", "=", "linux", 1, true},
		{"${attr.kernel.name}", "=", "windows", 1, false},
		{"${attr.kernel.name}", "!=", "windows", 1, true},
		{"${attr.kernel.name}", "!=", "linux", 1, false},
		{"linux", "=", "${attr.kernel.name}", 1, true},
		// What is not there equals nothing, and differs from what there is.
		{"${attr.no.such}", "=", "x", 1, false},
		{"${attr.no.such}", "!=", "x", 1, true},
		{"${attr.no.such}", ">", "0", 1, false},
		{"${attr.no.such}", job.IsSet, "", 1, false},
		{"${attr.no.such}", job.IsNotSet, "", 1, true},
		{"${attr.kernel.name}", job.IsSet, "", 1, true},
		// Numbers are compared as such, other values as text.
		{"${attr.cpu.numcores}", ">", "9", 1, true},
		{"${attr.cpu.numcores}", "<=", "9.5", 1, false},
		{"${attr.kernel.name}", ">=", "l", 1, true},
		{"${attr.kernel.name}", "<", "l", 1, false},
		{"${attr.kernel.name}", "regexp", "^l.n", 1, true},
		{"${attr.kernel.name}", "regexp", "(", 1, false},
		{"${attr.nomad.version}", "version", ">= 1.2, < 3", 1, true},
		{"${attr.nomad.version}", "version", "> 2.0.5", 1, false},
		{"${attr.nomad.version}", "version", "2.0.5", 1, true},
		{"${attr.nomad.version}", "version", "~> 2.0", 1, true},
		{"${attr.nomad.version}", "version", "~> 1.9", 1, false},
		{"${attr.nomad.version}", "version", "~> 2.0.1", 1, true},
		{"${attr.nomad.version}", "version", "!= 2.0.5", 1, false},
		{"${attr.nomad.version}", "version", "any", 1, false},
		{"${attr.kernel.version}", "semver", ">= 5.10", 1, true},
		{"${meta.tags}", "set_contains", "c,a", 1, true},
		{"${meta.tags}", "set_contains", "c,d", 1, false},
		{"${meta.tags}", "set_contains_any", "d, b", 1, true},
		{"${meta.tags}", "set_contains_any", "d", 1, false},
		{"", job.DistinctHosts, "", 1, true},
		{"", job.DistinctHosts, "", 2, false},
		{"${attr.kernel.name}", job.DistinctProperty, "2", 2, true},
		{"${attr.kernel.name}", job.DistinctProperty, "", 2, false},
	} {
		c := &job.Constraint{LTarget: test.left, Operand: test.operand, RTarget: test.right}
		if got := meets(c, test.count, names); got != test.want {
			t.Errorf("%s for %d: %t", c, test.count, got)
		}
	}
}

func TestTakePorts(t *testing.T) {
	group := &job.Group{Name: "g", Ports: []*job.Port{{Label: "any"}, {Label: "set", Value: 80}}}
	v := vacancy{group: group}
	r := &reservations{cores: map[int]bool{}, ports: map[int]string{}}
	for port := firstPort; port < lastPort-200; port++ {
		r.ports[port] = "other"
	}
	if err := r.take(&v); err != nil {
		t.Fatal(err)
	}
	if got := v.ports; got["set"] != 80 || got["any"] < lastPort-200 || got["any"] > lastPort {
		t.Errorf("ports %v", got)
	}
	before := len(r.ports)
	if err := r.take(&vacancy{group: group}); err == nil || len(r.ports) != before {
		t.Errorf("a port was given twice, or one of a failure is still taken: %v, %d of %d ports", err, len(r.ports), before)
	}
	for port := firstPort; port <= lastPort; port++ {
		r.ports[port] = "other"
	}
	group.Ports = group.Ports[:1]
	if err := r.take(&vacancy{group: group}); err == nil {
		t.Error("a port was given where none is left")
	}
}

func TestPortVariables(t *testing.T) {
	s := &start{
		group: &job.Group{Ports: []*job.Port{{Label: "http"}, {Label: "my-db", To: 5432}}},
		ports: map[string]int{"http": 20001, "my-db": 20002},
		node:  node.Node{Attributes: map[string]string{"unique.network.ip-address": "10.0.0.7"}},
	}
	want := map[string]string{
		"NOMAD_PORT_http": "20001", "NOMAD_ADDR_http": "10.0.0.7:20001", "NOMAD_IP_http": "10.0.0.7",
		"NOMAD_PORT_my_db": "5432", "NOMAD_PORT_my-db": "5432", "NOMAD_HOST_PORT_my_db": "20002", "NOMAD_ADDR_my_db": "10.0.0.7:20002",
	}
	got := s.portVariables()
	for name, value := range want {
		if d := cmp.Diff(value, got[name]); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
