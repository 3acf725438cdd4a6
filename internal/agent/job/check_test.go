// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// crashEnv makes that process crash as the runtime does where a group has no room for a thread.
const crashEnv = "TACHO_TEST_NO_THREAD"

// TestMain lets the test binary be the process that evaluates a job file.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[2] == TrialCommand {
		if os.Getenv(crashEnv) != "" {
			panic("runtime: failed to create new OS thread (have 5 already; errno=11)")
		}
		os.Exit(TrialMain(os.Stdin))
	}
	// The race detector would keep each short process for a second.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestCheckEndsCostlyFiles has short files that would take all memory or all time of the agent.
func TestCheckEndsCostlyFiles(t *testing.T) {
	t.Parallel()
	locals := func(step string) string {
		var b strings.Builder
		b.WriteString("locals {\n l0 = \"xxxxxxxx\"\n")
		for i := range 40 {
			b.WriteString(strings.NewReplacer("N", strconv.Itoa(i+1), "L", "local.l"+strconv.Itoa(i)).Replace(" lN = " + step + "\n"))
		}
		return jobText(b.String()+"}", "", "user = local.l40")
	}
	value := func(expr string) string { return jobText("", "", "env {\n X = "+expr+"\n}") }
	template := func(data string) string {
		return jobText("", "", "template {\n destination = \"local/x\"\n data = <<E0T\n"+data+"\nE0T\n}")
	}
	for name, text := range map[string]string{
		"nested loops":      value(`"${length([for a in range(1000) : [for b in range(1000) : [for c in range(1000) : a + b + c]]])}"`),
		"product":           value(`"${length(setproduct(range(1000), range(1000), range(1000)))}"`),
		"doubled":           locals(`"${L}${L}"`),
		"sum":               value(strings.Repeat("1+", 500_000) + "1"),
		"endless":           template(`{{ range 1000000000000 }}{{ end }}`),
		"doubled in a loop": template("{{ $x := `xxxxxxxx` }}{{ range 64 }}{{ $x = print $x $x }}{{ end }}"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := check(t.Context(), Source{Filename: "f.hcl", Text: text}, time.Second)
			if err == nil || !strings.HasPrefix(err.Error(), "f.hcl:1,1-1: Too large; its evaluation takes more than") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestCheckWithoutThreads does not call a file too large because the machine lacks threads.
func TestCheckWithoutThreads(t *testing.T) {
	t.Setenv(crashEnv, "1")
	err := check(t.Context(), Source{Filename: "x.hcl", Text: good}, time.Minute)
	if !errors.Is(err, syscall.EAGAIN) || !strings.Contains(err.Error(), "check job file: create a thread") {
		t.Error(err)
	}
}

// TestCheckAcceptsMistakes holds that a file with mistakes is left to Read, and that large files pass.
func TestCheckAcceptsMistakes(t *testing.T) { // not beside those that take all time
	for name, text := range map[string]string{
		"good":     good,
		"invalid":  "job {",
		"elements": jobText("", "", "config {\n args = ["+strings.Repeat("1,", 5000)+"1]\n}"),
		"heredoc":  jobText("", "", "config {\n args = [<<X\n"+strings.Repeat(strings.Repeat("x", 80)+"\n", 2000)+"X\n]\n}"),
		"loop":     jobText("", "", "env {\n X = join(\",\", [for i in range(1000) : format(\"%d\", i)])\n}"),
	} {
		t.Run(name, func(t *testing.T) {
			if err := check(t.Context(), Source{Filename: "f.hcl", Text: text}, time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Check(ctx, Source{Text: good}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestTemplates(t *testing.T) {
	env := map[string]string{"A": "a", "EMPTY": ""}
	tests := map[string]struct{ data, want, fault string }{
		"env":        {data: `{{ env "A" }}{{ env "NONE" }}`, want: "a"},
		"default":    {data: `{{ envOrDefault "NONE" "d" }}`, want: "d"},
		"functions":  {data: `{{ range split "," "x,y" }}<{{ . | toUpper }}>{{ end }}`, want: "<X><Y>"},
		"unknown":    {data: `{{ secret "x" }}`, fault: `function "secret" is not supported by the agent; run this job on a Nomad cluster`},
		"misspelled": {data: `{{ evn "x" }}`, fault: `function "evn" not defined`},
		"recursive":  {data: `{{ define "x" }}{{ template "x" }}{{ end }}{{ template "x" }}`, fault: "exceeded maximum template depth"},
		"huge":       {data: `{{ range 100000 }}` + strings.Repeat("0123456789", 100) + `{{ end }}`, fault: "writes more than 8388608 bytes"},
		"printed":    {data: `{{ printf "%-5s|%03d|%q" "a" 7 "b" }} {{ print 1 2 "x" }} {{ html "<" }} {{ js "'" }} {{ urlquery "a b" }}{{ println "z" }}`, want: "a    |007|\"b\" 1 2x &lt; \\' a+bz\n"},
		"defined":    {data: `{{ define "x" }}<{{ . }}>{{ end }}{{ range $i := 3 }}{{ if $i }}{{ template "x" $i }}{{ else }}-{{ end }}{{ end }}`, want: "-<1><2>"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			x := &Template{Data: tt.data, LeftDelim: "{{", RightDelim: "}}", Destination: "d"}
			got, err := x.Expand(env)
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("error %v, want %q in it", err, tt.fault)
				}
				return
			}
			if err != nil || string(got) != tt.want {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}
