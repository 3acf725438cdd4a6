// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import "testing"

func TestParseCPUInfo(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       float64
		fails      bool
	}{
		{"two cores", "processor\t: 0\ncpu MHz\t\t: 2000.5\nflags\t\t: fpu\nprocessor\t: 1\ncpu MHz\t\t: 2999.5\n", 2500, false},
		{"ARM says nothing", "processor\t: 0\nBogoMIPS\t: 38.40\n", 0, true},
		{"no number", "cpu MHz : fast\n", 0, true},
		{"zero", "cpu MHz : 0.000\n", 0, true},
		{"empty", "", 0, true},
	} {
		got, err := parseCPUInfo(test.text)
		if (err != nil) != test.fails || got != test.want {
			t.Errorf("%s: %f, %v; want %f", test.name, got, err, test.want)
		}
	}
}

func FuzzParseCPUInfo(f *testing.F) {
	f.Add("cpu MHz\t\t: 2000.5\n")
	f.Add("cpu MHz : NaN\n")
	f.Add("cpu MHz : 1e300\n")
	f.Fuzz(func(t *testing.T, text string) {
		if mhz, err := parseCPUInfo(text); err == nil && !(mhz > 0 && mhz <= 1e6) {
			t.Errorf("%f MHz of %q", mhz, text)
		}
	})
}

func TestCoreMHz(t *testing.T) {
	for _, test := range []struct {
		name     string
		topology *Topology
		want     float64
		ok       bool
	}{
		{"none", nil, 0, false},
		{"no cores", &Topology{}, 0, false},
		{"base, highest, guessed", &Topology{Cores: []Core{
			{BaseSpeed: 1000, MaxSpeed: 5000}, {MaxSpeed: 2000, GuessedSpeed: 9}, {GuessedSpeed: 3000},
		}}, 2000, true},
		{"one not known", &Topology{Cores: []Core{{BaseSpeed: 1000}, {}}}, 0, false},
		{"the operator's word", &Topology{Cores: []Core{{}, {}}, OverrideTotalCompute: 5000}, 2500, true},
	} {
		if got, ok := test.topology.CoreMHz(); got != test.want || ok != test.ok {
			t.Errorf("%s: %f, %t; want %f, %t", test.name, got, ok, test.want, test.ok)
		}
	}
}
