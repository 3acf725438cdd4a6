// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParse(t *testing.T) {
	env := map[string]string{"TACHO_GUEST_FILES": "bin/tacho:/bin/tacho,,testdata:/data/"}
	o, err := parse(
		[]string{"-kernel", "6.1", "-cgroup=v1", "-memory", "256", "-file", "a:/b", "p.test", "-test.run", "X", "-kernel"},
		func(name string) string { return env[name] }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := options{
		kernel: "6.1", cgroup: "v1", memory: 256, cpus: 2, user: "root",
		boot: time.Minute, grace: 2 * time.Minute,
		files:  mounts{{"a", "/b"}, {"bin/tacho", "/bin/tacho"}, {"testdata", "/data"}},
		binary: "p.test", args: []string{"-test.run", "X", "-kernel"}, timeout: 10 * time.Minute,
	}
	if diff := cmp.Diff(want, o, cmp.AllowUnexported(options{}, mount{})); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

func TestParseErrors(t *testing.T) {
	for line, want := range map[string]string{
		"":                       "no test binary",
		"-kernel 6.12":           "no test binary",
		"-kernel 5.4 x":          `unknown kernel "5.4": there are 6.1, 6.12`,
		"-cgroup v3 x":           `unknown cgroup layout "v3"`,
		"-user daemon x":         `unknown user "daemon"`,
		"-delegate -cgroup v1 x": "-delegate needs -cgroup v2",
		"-memory 64 x":           "-memory is at least 128",
		"-grace 0s x":            "above 0",
		"-file a:b x":            "is not FILE:/PATH/IN/THE/GUEST",
		"-file /a x":             "is not FILE:/PATH/IN/THE/GUEST",
		"-unknown x":             "flag provided but not defined",
		"-file :/a x":            "is not FILE:/PATH/IN/THE/GUEST",
	} {
		var stderr strings.Builder
		_, err := parse(strings.Fields(line), func(string) string { return "" }, &stderr)
		if err == nil || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: %v, stderr %q, want %q", line, err, &stderr, want)
		}
	}
	_, err := parse([]string{"x"}, func(string) string { return "tacho" }, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "TACHO_GUEST_FILES") {
		t.Errorf("error %v does not name TACHO_GUEST_FILES", err)
	}
	if _, err := parse([]string{"-h"}, func(string) string { return "" }, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v, want %v", err, flag.ErrHelp)
	}
}

func TestReadArgs(t *testing.T) {
	for _, test := range []struct {
		args    string
		timeout time.Duration
		outputs []string
	}{
		{"", 10 * time.Minute, nil},
		{"-test.timeout=1m0s", time.Minute, nil},
		{"--test.timeout=5s -test.v=true", 5 * time.Second, nil},
		{"-test.timeout=0s", 10 * time.Minute, nil},
		{"-test.timeout=soon", 10 * time.Minute, nil},
		{"-test.run=timeout -timeout=1s x", 10 * time.Minute, nil},
		{
			"-test.coverprofile=/b/c.out -test.cpuprofile=cpu.out -test.outputdir=/m -test.run=trace",
			10 * time.Minute,
			[]string{"/b/c.out", "/m/cpu.out"},
		},
	} {
		var o options
		o.readArgs(append(strings.Fields(test.args), "-test.gocoverdir=/b/cover"))
		want := options{args: strings.Fields(test.args), timeout: test.timeout, outputs: test.outputs}
		if diff := cmp.Diff(want, o, cmp.AllowUnexported(options{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.args, diff)
		}
	}
}

func TestEnvironment(t *testing.T) {
	got := environment([]string{"HOME=/h", "TACHO_LEVEL=debug", "TACHO_GUEST=x", "TACHO_GUEST_FILES=a:/b", "GOGC=10", "GOPATH=/g"})
	if diff := cmp.Diff([]string{"TACHO_LEVEL=debug", "GOGC=10"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}
