// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/testkit"
)

// aStart is a start of the only task of a job file.
func aStart(t *testing.T, task string) *start {
	t.Helper()
	file, err := job.Read(job.Source{Filename: "f", Text: "job \"j\" {\n meta {\n team = \"a\"\n }\n group \"g\" {\n task \"t\" {\n driver = \"d\"\n" +
		task + "\n }\n }\n}"})
	must(t, err)
	j := file.Job
	return &start{
		job: j, group: j.Groups[0], task: j.Groups[0].Tasks[0], expressions: file.Expressions(j.Groups[0].Tasks[0]), allocID: "0123-4567", allocName: "j.g[3]", index: 3,
		dir: datadir.In("/data/alloc", "0123-4567"), node: node.Node{
			ID: "n", Name: "here", Datacenter: "dc1", Region: "global", Attributes: map[string]string{"cpu.arch": "amd64", "cpu": "x"},
			Meta: map[string]string{"rack": "r1", "rack.row": "7"},
		},
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("PATH", "/bin")
	t.Setenv("HOME", "/root")
	t.Setenv("SECRET_OF_THE_AGENT", "x")
	s := aStart(t, `user = "u"
 resources {
  cpu = 50
  memory = 20
  memory_max = 40
 }
 env {
  OWN = "${NOMAD_TASK_DIR}/x ${node.unique.name} ${attr.cpu.arch} ${meta.rack.row} ${meta.team} ${env["PATH"]} ${UNKNOWN}"
  PATH = "/mine"
 }`)
	env := testkit.Value(s.environment())(t)
	want := map[string]string{
		"PATH": "/mine", "OWN": "/data/alloc/0123-4567/t/local/x here amd64 7 ${meta.team} /bin ${UNKNOWN}",
		"NOMAD_ALLOC_ID": "0123-4567", "NOMAD_SHORT_ALLOC_ID": "0123", "NOMAD_ALLOC_NAME": "j.g[3]", "NOMAD_ALLOC_INDEX": "3",
		"NOMAD_MEMORY_LIMIT": "20", "NOMAD_MEMORY_MAX_LIMIT": "40", "NOMAD_CPU_LIMIT": "50", "NOMAD_META_team": "a",
		"NOMAD_META_TEAM": "a", "TACHO_ALLOC_ID": "0123-4567", "TMPDIR": "/data/alloc/0123-4567/t/tmp",
		"NOMAD_ALLOC_DIR": "/data/alloc/0123-4567/alloc", "NOMAD_DC": "dc1",
	}
	for name, value := range want {
		testkit.Diff(t, name, value, env[name])
	}
	for _, name := range []string{"SECRET_OF_THE_AGENT", "HOME", "NOMAD_CPU_CORES"} {
		if value, there := env[name]; there {
			t.Errorf("%s = %q", name, value)
		}
	}
}

func TestReadEnv(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	must(t, readEnv([]byte("# comment\nA=1\n\nexport B = \"two words\"\nC='x=y'\n"), env))
	testkit.Diff(t, "result", map[string]string{"A": "1", "B": "two words", "C": "x=y"}, env)
	if err := readEnv([]byte("A=1\nnonsense"), env); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error %v", err)
	}
}

func TestDestination(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"local/x": "local/x", "${NOMAD_SECRETS_DIR}/x": "secrets/x", "local/../local/x": "local/x",
		"/etc/passwd": "", "../x": "", "${NOMAD_ALLOC_DIR}/x": "", "${NOMAD_TASK_DIR}/../../../x": "",
	} {
		if got, err := (&job.Template{Destination: path}).Path(); got != want || (err == nil) != (want != "") {
			t.Errorf("%s leads to %q, %v; want %q", path, got, err, want)
		}
	}
}

func TestPortVariables(t *testing.T) {
	t.Parallel()
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
		testkit.Diff(t, name, value, got[name])
	}
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
