// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
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

func TestParse(t *testing.T) {
	j, err := Parse(Source{Filename: "x.hcl", Text: good, Variables: map[string]string{"greeting": "hi"}})
	if err != nil {
		t.Fatal(err)
	}
	task := j.Group("g").Task("t")
	env, diags := task.Environment(map[string]cty.Value{"NOMAD_ALLOC_INDEX": cty.StringVal("1")})
	if diags.HasErrors() || env["A"] != "x1" {
		t.Errorf("env %v, %v", env, diags)
	}
	if got, want := task.Templates[0].Data, "{{ env \"A\" }} ${X}"; got != want {
		t.Errorf("template %q, want %q", got, want)
	}
	scope := task.ConfigScope(map[string]cty.Value{
		"NOMAD_ALLOC_ID": cty.StringVal("ID"), "env": cty.ObjectVal(map[string]cty.Value{"B": cty.StringVal("b")}),
		"meta": cty.ObjectVal(map[string]cty.Value{"team": cty.StringVal("a")}),
	})
	attributes, _ := task.ConfigBody.JustAttributes()
	v, diags := attributes["args"].Expr.Value(scope)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	want := `echo hi WORLD ID ${HOME} ${env["A"]} a ${attr.cpu.arch}`
	if got := v.AsValueSlice()[1].AsString(); got != want {
		t.Errorf("args %q, want %q", got, want)
	}
}

// A number is nanoseconds: that is what Nomad's own JSON has.
func TestNanoseconds(t *testing.T) {
	text := strings.Replace(good, `kill_timeout = "3s"`, "kill_timeout = 3000000000", 1)
	j, err := Parse(Source{Filename: "x.hcl", Text: text, Variables: map[string]string{"greeting": "hi"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := j.Group("g").Task("t").KillTimeout; got != 3*time.Second {
		t.Errorf("kill_timeout is %s", got)
	}
}

func TestParseRefuses(t *testing.T) {
	wrap := func(group, task string) string {
		return "job \"j\" {\n group \"g\" {\n" + group + "\n task \"t\" {\n driver = \"tacho\"\n" + task + "\n }\n }\n}"
	}
	tests := map[string]struct{ text, want string }{
		"network":       {wrap("network {}", ""), "f.hcl:3,1-8: Not carried out; network is not carried out by the embedded agent; run this job on a Nomad cluster"},
		"near miss":     {wrap("", "resouces {}"), `f.hcl:6,1-9: Unknown block; there is no block "resouces" in a task; did you mean "resources"?`},
		"wrong type":    {wrap("", "kill_timeout = \"soon\""), "f.hcl:6,16-22: Wrong value"},
		"no unit":       {wrap("", "kill_timeout = \"5\""), "f.hcl:6,16-19: Wrong value; kill_timeout is a time"},
		"half a ns":     {wrap("", "kill_timeout = 0.5"), "f.hcl:6,16-19: Wrong value"},
		"before":        {wrap("", "kill_timeout = -1"), "f.hcl:6,16-18: Wrong value"},
		"outside":       {wrap("", "template {\ndata=\"\"\ndestination=\"../../x\"\n}"), "not within the task's folder"},
		"no driver":     {"job \"j\" {\n group \"g\" {\n task \"t\" {}\n}\n}", "has no driver"},
		"slash":         {"job \"j\" {\n group \"g\" {\n task \"a/b\" {\ndriver=\"x\"\n}\n}\n}", "no slash"},
		"no job":        {"", "the file has no job"},
		"syntax":        {"job \"j\" {", "f.hcl:1,9-10"},
		"unknown var":   {wrap("count = var.n", ""), "f.hcl:3,12-14"},
		"system":        {"job \"j\" {\ntype = \"system\"\ngroup \"g\" {\n task \"t\" {\ndriver=\"x\"\n}\n}\n}", "type is service or batch or sysbatch"},
		"cpu and cores": {wrap("", "resources {\ncpu = 1\ncores = 1\n}"), "cpu or cores"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(Source{Filename: "f.hcl", Text: tt.text})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

// TestValuesAreBounded has files of a few lines that would take all memory.
func TestValuesAreBounded(t *testing.T) {
	chain := func(step string) string {
		var b strings.Builder
		b.WriteString("locals {\n l0 = \"xxxxxxxx\"\n")
		for i := range 30 {
			fmt.Fprintf(&b, " l%d = %s\n", i+1, strings.ReplaceAll(step, "L", fmt.Sprintf("local.l%d", i)))
		}
		return b.String() + "}\n" + good[strings.Index(good, "job"):]
	}
	for step, want := range map[string]string{
		`replace(L, "x", L)`:                   "the result of replace can be larger",
		`regex_replace(L, "x", L)`:             "the result of regex_replace can be larger",
		`join(L, split("", L))`:                "the result of join can be larger",
		`format("%s%s%s%s", L, L, L, L)`:       "the result of format can be larger",
		`format("%99999999d", 1)`:              "the result of format can be larger",
		`format("%*d", 99999999, 1)`:           "the result of format can be larger",
		`indent(99999999, "a\nb")`:             "the result of indent can be larger",
		`setproduct(range(1000), range(1000))`: "the result of setproduct can be larger",
		`"${L}${L}"`:                           "is larger than 1048576 bytes",
		`[L, L]`:                               "is larger than 1048576 bytes",
		`1e99999999`:                           "values of this file can come to more than",
	} {
		_, err := Parse(Source{Filename: "f.hcl", Text: chain(step)})
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 10_000 {
			t.Errorf("%s: %.300v, want %q in it", step, err, want)
		}
	}
}

// TestExpressionsAreBounded is about what grows within one expression.
func TestExpressionsAreBounded(t *testing.T) {
	locals := "locals {\n who = \"w\"\n all = range(1000)\n some = replace(format(\"%9000d\", 1), \" \", \"x\")\n long = format(\"%900000d\", 1)\n}\nvariable \"greeting\" { default = \"g\" }\n"
	rest := good[strings.Index(good, "job"):]
	for expr, want := range map[string]string{
		`"${join(",", [for i in range(100) : format("%d", i)])}"`:                                     "",
		`"${join(",", [for i in local.all : "x${i}"])}"`:                                              "",
		`"${length([for a in local.all : [for b in local.all : [for c in local.all : [a, b, c]]]])}"`: "values of this file can come to more than",
		`"${length([for a in local.all : "${local.long}${a}"])}"`:                                     "values of this file can come to more than",
		`1e99999999`:        "values of this file can come to more than",
		`"${-1e-99999999}"`: "values of this file can come to more than",
		`"` + strings.Repeat("${local.long}", 400) + `"`:                              "values of this file can come to more than",
		`"${length([for a in range(1000) : [a, replace(local.some, "x", "yyyy")]])}"`: "results of functions come to more than",
	} {
		if strings.Contains(want, "this file") && !strings.Contains(expr, "long") {
			_, err := Parse(Source{Filename: "f.hcl", Text: "variable \"greeting\" { default = " +
				strings.ReplaceAll(expr, "local.all", "range(1000)") + " }\nlocals {\n who = \"w\"\n}\n" + rest})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("as a default: %.300v", err)
			}
		}
		_, err := Parse(Source{Filename: "f.hcl", Text: locals + strings.Replace(rest, `"x${NOMAD_ALLOC_INDEX}"`, expr, 1)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.100s: %.300v, want %q in it", expr, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("job \"j\" {")
	f.Fuzz(func(t *testing.T, text string) {
		j, err := Parse(Source{Filename: "f", Text: text})
		if (err == nil) != (j != nil) {
			t.Errorf("job %v, error %v", j, err)
		}
	})
}
