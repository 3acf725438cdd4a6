// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package node

import (
	"testing"

	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/testkit"
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
		testkit.Equal(t, Meets(c, test.count, names), test.want, "%s for %d", c, test.count)
	}
}
