// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"fmt"
	"os/user"
	"path/filepath"
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
			Drivers: map[string]node.Driver{
				"tacho": {Detected: true, Attributes: map[string]any{"driver.tacho": true, "driver.tacho.root": true}}, "other": {},
			},
		},
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("PATH", "/bin")
	t.Setenv("HOME", "/root")
	t.Setenv("SECRET_OF_THE_AGENT", "x")
	t.Setenv("SHELL", "/bin/of-the-agent")
	daemon := testkit.Value(user.LookupId("1"))(t)
	s := aStart(t, `user = "1"
 resources {
  cpu = 50
  memory = 20
  memory_max = 40
 }
 meta = {
  "a.b-c/é" = "m"
 }
 env {
  OWN = "${NOMAD_TASK_DIR}/x ${node.unique.name} ${attr.cpu.arch} ${attr.driver.tacho} ${attr.driver.other} ${meta.rack.row} ${meta.team} ${env["PATH"]} ${UNKNOWN} ${HOME}"
  PATH = "/mine"
  USER = "me"
 }`)
	env := testkit.Value(s.environment())(t)
	want := map[string]string{
		"PATH": "/mine", "OWN": "/data/alloc/0123-4567/t/local/x here amd64 1 ${attr.driver.other} 7 ${meta.team} /bin ${UNKNOWN} " + daemon.HomeDir,
		"HOME": daemon.HomeDir, "USER": "me", "LOGNAME": daemon.Username, "SHELL": "/bin/of-the-agent",
		"NOMAD_ALLOC_ID": "0123-4567", "NOMAD_SHORT_ALLOC_ID": "0123", "NOMAD_ALLOC_NAME": "j.g[3]", "NOMAD_ALLOC_INDEX": "3",
		"NOMAD_MEMORY_LIMIT": "20", "NOMAD_MEMORY_MAX_LIMIT": "40", "NOMAD_CPU_LIMIT": "50", "NOMAD_META_team": "a",
		"NOMAD_META_TEAM": "a", "TACHO_ALLOC_ID": "0123-4567", "TMPDIR": "/data/alloc/0123-4567/t/tmp",
		"NOMAD_ALLOC_DIR": "/data/alloc/0123-4567/alloc", "NOMAD_DC": "dc1",
		"NOMAD_META_a.b_c___": "m",
	}
	for name, value := range want {
		testkit.Diff(t, name, value, env[name])
	}
	for _, name := range []string{"SECRET_OF_THE_AGENT", "NOMAD_CPU_CORES"} {
		if value, there := env[name]; there {
			t.Errorf("%s = %q", name, value)
		}
	}
}

// TestReadEnv has lines of environment files with what Nomad makes of them.
func TestReadEnv(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"A=1": "A=1", "": "", "# A=1": "", " \tA =  1 \r": "A=1", "A=": "A=", "A=x=y": "A=x=y", "A=''": "A=", `A=""`: "A=",
		"export A=1": "A=1", "export=1": "export=1", "export  A=1": `line 2: key must start with [A-Za-z_] but found ' '`,
		"A=two words # c": "A=two words", "A=x#y": "A=x", "A='x#y' # c": "A=x#y", "A= # c": "A=", "A='x ' # c": "A=x ",
		`A="x" 'y'z`: "A=x yz", `A="x"y`: "A=xy", `A=x\ny`: `A=x\ny`, `A='x\ny'`: `A=x\ny`, `A="x\ty"`: "A=x\ty",
		`A="\"\\\/"`: `A="\/`, `A="\u00e9\ud83d\ude00"`: "A=é😀", "A=é ü": "A=é ü", `A="it's"`: "A=it's",
		"a.b=1": "a.b=1", "a/b=1": "a/b=1", "_=1": "_=1", "A1=1": "A1=1",
		"A": "line 2: missing =", "=1": "line 2: empty key", " = ": "line 2: empty key",
		"1A=1": `line 2: key must start with [A-Za-z_] but found '1'`, "A-B=1": `line 2: key characters must be [A-Za-z0-9/_.] but found '-'`,
		"A B=1": `line 2: key characters must be [A-Za-z0-9/_.] but found ' '`, "é=1": `line 2: key must start with [A-Za-z_] but found 'Ã'`,
		`A="x`: `line 2: unmatched "`, "A='x": "line 2: unmatched '", `A="x\`: "line 2: incomplete escape sequence",
		`A="\x41"`: `line 2: invalid escape sequence: "x"`, `A="\é"`: "line 2: multibyte characters disallowed in escape sequences",
		`A="\u00`: "line 2: incomplete hex sequence", `A="\ud83d"`: "line 2: incomplete Unicode surrogate pair",
		`A="\u00zz"`: `line 2: invalid hex character: "z"`, "A=x\x00y": "line 2: 0x00 is an invalid value character",
		"A=x\ty": "line 2: 0x09 is an invalid value character", "A=" + strings.Repeat("x", 64<<10): "line 1: bufio.Scanner: token too long",
	} {
		env := map[string]string{}
		err := readEnv([]byte("\n"+line+"\n"), env)
		got := ""
		for name, value := range env {
			got += name + "=" + value
		}
		if err != nil {
			got = err.Error()
		}
		testkit.Diff(t, fmt.Sprintf("%.40q", line), want, got)
	}
	env := map[string]string{"A": "0", "B": "0"}
	must(t, readEnv([]byte("A=1\nA=2\n"), env))
	testkit.Diff(t, "replaced", map[string]string{"A": "2", "B": "0"}, env)
}

// TestDestination has destinations of templates with the file in the allocation's directory, or the reason why not.
func TestDestination(t *testing.T) {
	t.Parallel()
	const directory, outside, reserved, unnamed = "is a directory; append", "is not within the task's directory or ${NOMAD_ALLOC_DIR}",
		"is reserved for the log files", "cannot be the name of a file"
	s := aStart(t, "")
	env := testkit.Value(s.environment())(t)
	for destination, want := range map[string]string{
		"local/x": "t/local/x", "x": "t/x", "local/../local/x": "t/local/x", "new/folder/x": "t/new/folder/x", "local/tmp": "t/local/tmp",
		"${NOMAD_TASK_DIR}/x": "t/local/x", "${NOMAD_SECRETS_DIR}/x": "t/secrets/x", "${NOMAD_ALLOC_DIR}/x": "alloc/x",
		"${NOMAD_ALLOC_DIR}/data/x": "alloc/data/x", "../alloc/tmp/x": "alloc/tmp/x", "/local/x": "t/local/x", "/secrets/x": "t/secrets/x",
		"${NOMAD_ALLOC_DIR}/../t/x": "t/x", "local/${NOMAD_JOB_ID}-${meta.rack}-${ attr.cpu.arch }-${node.unique.name}": "t/local/j-r1-amd64-here",
		"local/${NOMAD_META_team}/${UNKNOWN}": "t/local/a/${UNKNOWN}",
		"local":                               directory, "local/": directory, "local/x/": directory, ".": directory, "secrets": directory, "tmp": directory,
		"${NOMAD_TASK_DIR}": directory, "${NOMAD_ALLOC_DIR}": directory, "${NOMAD_ALLOC_DIR}/data": directory, "local/..": directory,
		"${NOMAD_ALLOC_DIR}/tmp": directory, "../alloc/logs": directory, "/local/": directory,
		"${NOMAD_ALLOC_DIR}/logs/t.stdout.0": reserved, "../alloc/logs/new/x": reserved,
		"/etc/passwd": outside, "../x": outside, "..": outside, "../../x": outside, "${NOMAD_TASK_DIR}/../../../x": outside, "/tmp/x": outside,
		"../u/local/x": outside, "${NOMAD_ALLOC_DIR}x": outside, "${NOMAD_ALLOC_DIR}/../x": outside, "../.history3/t": outside,
		"/local/../../x": outside, "local/x\x00": unnamed, "local/" + strings.Repeat("x", 256): unnamed,
	} {
		dir, path, err := s.target(&job.Template{Destination: destination}, env)
		if want == directory || want == outside || want == reserved || want == unnamed {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q in it", destination, err, want)
			}
		} else if got := filepath.Join(dir, path); err != nil || got != "/data/alloc/0123-4567/"+want {
			t.Errorf("%s leads to %q, %v; want %q", destination, got, err, want)
		}
	}
}

// TestCheckTemplates has what a task's templates are refused for before a start, with the place of each.
func TestCheckTemplates(t *testing.T) {
	t.Parallel()
	s := aStart(t, `template {
 destination = "local/a"
 data = "A=1"
 env = true
}
template {
 destination = "${NOMAD_TASK_DIR}/a/b"
 data = "{{ env `+"`A`"+` }}"
}
template {
 destination = "local"
 data = "A=1\n1=2"
 env = true
}
template {
 destination = "${NOMAD_ALLOC_DIR}/x"
 data = "\n{{ mustEnv `+"`NONE`"+` }}"
}`)
	err := s.checkTemplates(t.Context(), testkit.Value(s.environment())(t))
	testkit.Diff(t, "faults", `f:17: template local: destination "local" is a directory; append the name of a file
f:17: template local: line 2: key must start with [A-Za-z_] but found '1'
f:22: template ${NOMAD_ALLOC_DIR}/x: line 2: <mustEnv `+"`NONE`"+`>: error calling mustEnv: variable NONE is not set or empty
f:13: template ${NOMAD_TASK_DIR}/a/b: another template makes a file of local/a`, fmt.Sprint(err))
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
		"NOMAD_PORT_my_db": "5432", "NOMAD_PORT_my-db": "5432", "NOMAD_ALLOC_PORT_my_db": "5432", "NOMAD_HOST_PORT_my_db": "20002", "NOMAD_ADDR_my_db": "10.0.0.7:20002",
	}
	got := s.portVariables()
	for name, value := range want {
		testkit.Diff(t, name, value, got[name])
	}
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
