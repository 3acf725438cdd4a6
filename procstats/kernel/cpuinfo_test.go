// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

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
