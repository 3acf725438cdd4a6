// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/tachograph/tacho/internal/testkit"
)

const good = `
variable "greeting" { default = "hello" }
locals { who = upper("world") }
job "demo" {
  datacenters = ["dc1"]
  type = "batch"
  meta { team = "a" }
  group "g" {
    count = 2
    restart {
 attempts = 1
 interval = "1m"
 delay = "1s"
 mode = "fail"
}
    task "t" {
      driver = "tacho"
      config {
        command = "sh"
        args = ["-c", "echo ${var.greeting} ${local.who} ${NOMAD_ALLOC_ID} ${HOME} ${env["A"]} ${meta.team} ${attr.cpu.arch}"]
      }
      env { A = "x${NOMAD_ALLOC_INDEX}" }
      resources {
 cpu = 500
 memory = 64
 memory_max = 128
}
      template {
 data = "{{ env \"A\" }} ${X}"
 destination = "local/f"
}
      logs { max_files = 2 }
      kill_timeout = "3s"
    }
  }
}
`

// parse reads a job without mistakes.
func parse(t *testing.T, text string) *Job {
	t.Helper()
	j, err := Read(Source{Filename: "x.hcl", Text: text})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return j.Job
}

func TestParse(t *testing.T) {
	f := testkit.Value(Read(Source{Filename: "x.hcl", Text: good, Variables: map[string]string{"greeting": "hi"}}))(t)
	task := f.Job.Group("g").Task("t")
	env, diags := f.Expressions(task).Environment(map[string]cty.Value{"NOMAD_ALLOC_INDEX": cty.StringVal("1")})
	if diags.HasErrors() || env["A"] != "x1" {
		t.Errorf("env %v, %v", env, diags)
	}
	testkit.Equal(t, task.Templates[0].Data, "{{ env \"A\" }} ${X}", "template")
	body, scope := f.Expressions(task).Config(map[string]cty.Value{
		"NOMAD_ALLOC_ID": cty.StringVal("ID"), "HOME": cty.StringVal("/h"),
		"env":  cty.ObjectVal(map[string]cty.Value{"A": cty.StringVal("b")}),
		"attr": cty.ObjectVal(map[string]cty.Value{"cpu": cty.ObjectVal(map[string]cty.Value{"arch": cty.StringVal("x")})}),
		"meta": cty.ObjectVal(map[string]cty.Value{"team": cty.StringVal("a")}),
	})
	attributes, _ := body.JustAttributes()
	v, diags := attributes["args"].Expr.Value(scope)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	want := `echo hi WORLD ID /h b a x`
	testkit.Equal(t, v.AsValueSlice()[1].AsString(), want, "args")
}

// TestInterpolation has what env blocks, locals, meta data and config blocks say of each other and of a start.
func TestInterpolation(t *testing.T) {
	const text = `
locals {
  dir  = "${NOMAD_TASK_DIR}/data"
  file = "${local.dir}/file"
}
job "j" {
  group "g" {
    meta { where = "${node.unique.name}-${local.dir}" }
    task "t" {
      driver = "tacho"
      config { args = ["${B}", local.file, "$${SHELL_VAR}"] }
      env {
        A    = "${B}/${PORT}"
        B    = "b${PORT}"
        PORT = 80
        PATH = "/own:${PATH}"
        X    = "${Y}"
        Y    = "${X}"
        ODD  = "${NOT_THERE} ${local.file}"
      }
    }
  }
}`
	f := testkit.Value(Read(Source{Filename: "x.hcl", Text: text}))(t)
	task := f.Job.Group("g").Task("t")
	testkit.Equal(t, task.Meta["where"], "${node.unique.name}-${NOMAD_TASK_DIR}/data", "meta")
	start := map[string]cty.Value{"NOMAD_TASK_DIR": cty.StringVal("/local"), "PATH": cty.StringVal("/bin")}
	env, diags := f.Expressions(task).Environment(start)
	want := map[string]string{
		"A": "b80/80", "B": "b80", "PORT": "80", "PATH": "/own:/bin", "X": "${X}", "Y": "${X}", "ODD": "${NOT_THERE} /local/data/file",
	}
	if d := cmp.Diff(want, env); d != "" || diags.HasErrors() {
		t.Errorf("env, %v (-want +got):\n%s", diags, d)
	}
	start["B"] = cty.StringVal(env["B"])
	body, scope := f.Expressions(task).Config(start)
	attributes, _ := body.JustAttributes()
	v, diags := attributes["args"].Expr.Value(scope)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var args []string
	for _, arg := range v.AsValueSlice() {
		args = append(args, arg.AsString())
	}
	testkit.Diff(t, "args", []string{"b80", "/local/data/file", "${SHELL_VAR}"}, args)
	delete(start, "B")
	_, scope = f.Expressions(task).Config(start)
	if _, diags := attributes["args"].Expr.Value(scope); !diags.HasErrors() {
		t.Error("an unknown name in a config block is no error")
	}
}

// A number is nanoseconds: that is what Nomad's own JSON has.
func TestNanoseconds(t *testing.T) {
	j := parse(t, strings.Replace(good, `kill_timeout = "3s"`, "kill_timeout = 3000000000", 1))
	testkit.Equal(t, j.Group("g").Task("t").KillTimeout, 3*time.Second, "kill_timeout is")
}

// TestParseRefuses has files with one mistake, of which one thing is said.
func TestParseRefuses(t *testing.T) {
	wrap := func(group, task string) string {
		return "job \"j\" {\n group \"g\" {\n" + group + "\n task \"t\" {\n driver = \"tacho\"\n" + task + "\n }\n }\n}"
	}
	tests := map[string]struct{ text, want string }{
		"artifact":      {wrap("", "artifact {}"), "f.hcl:6,1-9: Not supported; artifact is not supported by the embedded agent; run this job on a Nomad cluster"},
		"bridge":        {wrap("network {\nmode = \"bridge\"\n}", ""), `f.hcl:3,1-8: Not supported; network mode "bridge" is not supported`},
		"two ports":     {wrap("network {\nport \"a\" {}\nport \"a\" {}\n}", ""), `f.hcl:5,6-9: Duplicate name; duplicate port "a"`},
		"canary":        {wrap("update {\ncanary = 1\n}", ""), "f.hcl:4,1-7: Not supported; canary is not supported"},
		"connect":       {wrap("service {\nconnect {}\n}", ""), "f.hcl:4,1-8: Not supported; connect is not supported"},
		"operator":      {wrap("constraint {\nattribute = \"a\"\noperator = \"near\"\n}", ""), `unknown operator "near" of a constraint`},
		"two systems":   {"job \"j\" {\ntype = \"system\"\ngroup \"g\" {\ncount = 2\n task \"t\" {\ndriver=\"x\"\n}\n}\n}", "a system job runs once on a node"},
		"seconds":       {wrap("", "kill_timeout = 5"), `f.hcl:6,16-17: Invalid value; kill_timeout = 5 is 5ns; did you mean "5s"?`},
		"seconds later": {wrap("", "restart {\n interval = 1800\n}"), `interval = 1800 is 1800ns; did you mean "1800s"?`},
		"file":          {wrap("count = file(\"x\")", ""), "f.hcl:3,9-13: Not supported; file is not supported by the agent: nomad job run evaluates it; use a variable"},
		"timestamp":     {wrap("meta = { a = timestamp() }", ""), "timestamp is not supported by the agent: nomad job run evaluates it"},
		"no function":   {wrap("meta = { a = tilte(\"x\") }", ""), "There is no function named \"tilte\". Did you mean \"title\"?"},
		"near miss":     {wrap("", "resouces {}"), `f.hcl:6,1-9: Unknown block; unknown block "resouces" in a task; did you mean "resources"?`},
		"wrong type":    {wrap("", "kill_timeout = \"soon\""), "f.hcl:6,16-22: Invalid value"},
		"no unit":       {wrap("", "kill_timeout = \"5\""), "f.hcl:6,16-19: Invalid value; kill_timeout must be a duration"},
		"half a ns":     {wrap("", "kill_timeout = 0.5"), "f.hcl:6,16-19: Invalid value"},
		"before":        {wrap("", "kill_timeout = -1"), "f.hcl:6,16-18: Invalid value"},
		"no driver":     {"job \"j\" {\n group \"g\" {\n task \"t\" {}\n}\n}", "has no driver"},
		"slash":         {"job \"j\" {\n group \"g\" {\n task \"a/b\" {\ndriver=\"x\"\n}\n}\n}", "no slash"},
		"dot":           {strings.Replace(wrap("", ""), "\"j\"", "\".\"", 1), `f.hcl:1,5-8: Invalid name; the id of a job must not be ".": no address can have it in its path`},
		"dots":          {strings.Replace(wrap("", ""), "\"j\"", "\"..\"", 1), `the id of a job must not be "..": no address`},
		"replaced":      {strings.Replace(wrap("", ""), "\"j\"", "\"j\ufffd\"", 1), "must be UTF-8, without U+FFFD"},
		"replaced task": {strings.Replace(wrap("", ""), "\"t\"", "\"\ufffd\"", 1), "must be UTF-8, without U+FFFD"},
		"replaced id":   {strings.Replace(wrap("", ""), "group", "id = \"\ufffd\"\ngroup", 1), "must be UTF-8, without U+FFFD"},
		"no job":        {"", "the file has no job"},
		"syntax":        {"job \"j\" {", "f.hcl:1,9-10"},
		"no bool":       {wrap("", "leader = yes"), `f.hcl:6,10-13: Invalid value; yes is not a value: a bool is true or false, a text is in quotes: "yes"`},
		"unknown var":   {wrap("count = var.n", ""), "f.hcl:3,12-14"},
		"no such type":  {"job \"j\" {\ntype = \"cron\"\ngroup \"g\" {\n task \"t\" {\ndriver=\"x\"\n}\n}\n}", "type must be service or batch or system or sysbatch"},
		"restart mode":  {wrap("restart {\nmode = \"foo\"\n}", ""), `f.hcl:4,8-13: Invalid value; mode must be fail or delay, not "foo"`},
		"cpu and cores": {wrap("", "resources {\ncpu = 1\ncores = 1\n}"), "cpu or cores"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Read(Source{Filename: "f.hcl", Text: tt.text})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %q in it, and one line", err, tt.want)
			}
		})
	}
}

// TestPlacement has a file that chooses nodes, ports and rollouts, with a task directly in its job.
func TestPlacement(t *testing.T) {
	j := parse(t, `
job "j" {
  type      = "system"
  node_pool = "all"
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  constraint { distinct_hosts = true }
  constraint { distinct_hosts = false }
  update { max_parallel = 1 }
  spread { attribute = "${node.datacenter}" }
  group "g" {
    shutdown_delay = "5s"
    constraint {
      attribute = "${attr.nomad.version}"
      version   = ">= 1.0"
    }
    network {
      port "http" {}
      port "db" {
        static = 5432
        to     = 1
      }
    }
    service {}
    service "named" {
      check { type = "tcp" }
    }
    ephemeral_disk { size = 24 }
    task "a" {
      driver = "tacho"
      resources {
        memory_max = -1
        disk       = 10
      }
      logs {
        max_files     = 3
        max_file_size = 100
      }
    }
    task "b" { driver = "tacho" }
  }
  task "alone" { driver = "tacho" }
}`)
	g := j.Group("g")
	a, b := g.Task("a"), g.Task("b")
	if a.Resources.MemoryLimitBytes() != 0 || a.Logs.MaxFiles != 3 || a.Logs.MaxFileSizeMB != 2 || b.Logs.MaxFiles*b.Logs.MaxFileSizeMB > 6 {
		t.Errorf("resources %+v, logs %+v and %+v", a.Resources, a.Logs, b.Logs)
	}
	ports := []*Port{{Label: "http"}, {Label: "db", Value: 5432, To: 1}}
	testkit.Diff(t, "ports", ports, g.Ports)
	var constraints []string
	for _, c := range append(j.Constraints, g.Constraints...) {
		constraints = append(constraints, c.String())
	}
	if d := cmp.Diff([]string{"${attr.kernel.name} = linux", "distinct_hosts", "${attr.nomad.version} version >= 1.0"}, constraints); d != "" {
		t.Errorf("constraints (-want +got):\n%s", d)
	}
	notes := []string{"no effect on one node: disk, node_pool, shutdown_delay, spread, update", "services are not registered; checks do not run and restart nothing"}
	testkit.Diff(t, "notes", notes, j.Notes)
	if alone := j.Group("alone"); alone == nil || alone.Task("alone") == nil || alone.Count != 1 {
		t.Errorf("a task in its job: %+v", alone)
	}
}

// TestTextsAreBounded has texts that would overflow the stack of the parser, or take all memory.
func TestTextsAreBounded(t *testing.T) {
	arg := func(expr string) string { return jobText("", "", "config {\n args = ["+expr+"]\n}") }
	nest := func(n int, open, end string) string {
		return arg(strings.Repeat(open, n) + "1" + strings.Repeat(end, n))
	}
	const nested = "brackets nested more than 100 deep"
	for name, tt := range map[string]struct{ text, want string }{
		"parentheses":  {nest(100_000, "(", ")"), nested},
		"unclosed":     {arg(strings.Repeat("(", 100_000)), nested},
		"some":         {nest(90, "(", ")"), ""},
		"lists":        {nest(100, "[", "]"), nested},
		"blocks":       {strings.Repeat("a {\n", 1000), nested},
		"objects":      {nest(100, "{a=", "}"), nested},
		"templates":    {nest(60, "\"${", "}\""), nested},
		"in a heredoc": {arg("<<X\n${" + strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200) + "}\nX\n"), nested},
		"text":         {arg("<<X\n" + strings.Repeat("((((\n", 1000) + "X\n"), ""},
		"a comment":    {arg("1 /* " + strings.Repeat("(", 1000) + " */"), ""},
		"operators":    {arg(strings.Repeat("true?1:", 6000) + "1"), ""},
		"large":        {strings.Repeat("#", MaxSource+1), "bytes; a job file can have 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(Source{Filename: "f.hcl", Text: tt.text})
			switch {
			case tt.want == "":
				if err != nil {
					t.Errorf("refused: %.300v", err)
				}
			case err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "f.hcl:"):
				t.Errorf("error %.300v, want %q in it, with its place", err, tt.want)
			}
		})
	}
}

// TestVariablesAreBounded is about values that come with a file.
func TestVariablesAreBounded(t *testing.T) {
	text := jobText("variable \"x\" {\n type = list(number)\n}", "", "")
	for value, want := range map[string]string{
		"[1]":                           "",
		strings.Repeat("[", 100_000):    "brackets nested",
		strings.Repeat("[1],", 300_000): "with the values of its variables",
	} {
		_, err := Read(Source{Filename: "f", Text: text, Variables: map[string]string{"x": value}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.10s: %.300v, want %q in it", value, err, want)
		}
	}
}

// jobText is a job file with a task, in which some places are filled.
func jobText(head, group, task string) string {
	return head + "\njob \"j\" {\n  type = \"batch\"\n  group \"g\" {\n" + group +
		"\n    task \"t\" {\n      driver = \"tacho\"\n" + task + "\n    }\n  }\n}\n"
}

// TestLocalsNeedEachOther has locals in an order in which they cannot be evaluated.
func TestLocalsNeedEachOther(t *testing.T) {
	locals := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, " l%04d = \"${local.l%04d}\"\n", i, i+1)
		}
		return "locals {\n" + b.String()
	}
	end := fmt.Sprintf(" l%04d = \"end\"\n}", 900)
	j := parse(t, jobText(locals(900)+end, "", "user = local.l0000"))
	testkit.Equal(t, j.Groups[0].Tasks[0].User, "end", "user")
	for text, want := range map[string]string{
		locals(3) + " l0003 = local.l0000\n}": "refers to itself",
		locals(2) + "}":                       `does not have an attribute named "l0002"`,
	} {
		_, err := Read(Source{Filename: "f", Text: jobText(text, "", "user = local.l0000")})
		if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%.300v, want %q, and nothing else", err, want)
		}
	}
}

// TestTextFunctions has values that Nomad's functions have.
func TestTextFunctions(t *testing.T) {
	for expression, want := range map[string]string{
		`base64encode("hello")`:                   "aGVsbG8=",
		`base64decode("aGVsbG8=")`:                "hello",
		`urlencode("a b/c")`:                      "a+b%2Fc",
		`basename("/a/b.c")`:                      "b.c",
		`dirname("/a/b.c")`:                       "/a",
		`md5("hello")`:                            "5d41402abc4b2a76b9719d911017c592",
		`sha1("hello")`:                           "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d",
		`sha256("hello")`:                         "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
		`substr(sha512("hello"), 0, 16)`:          "9b71d224bd62f378",
		`timeadd("2026-01-01T00:00:00Z", "1h")`:   "2026-01-01T01:00:00Z",
		`try(var.v.none, "other")`:                "other",
		`can(var.v.none) ? "yes" : "no"`:          "no",
		`join(",", convert(["1"], list(string)))`: "1",
	} {
		j, err := Read(Source{Filename: "x", Text: jobText("variable \"v\" {\n default = \"x\"\n}", "", "user = "+expression)})
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		testkit.Equal(t, j.Groups[0].Tasks[0].User, want, "%s", expression)
	}
	for _, expression := range []string{`base64decode("%")`, `base64decode("/w==")`, `try(var.none)`} {
		if _, err := Read(Source{Filename: "x", Text: jobText("", "", "user = "+expression)}); err == nil {
			t.Errorf("%s has a value", expression)
		}
	}
}
