// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"
	"strings"
)

// localsJob has locals that refer to each other and grow.
func (m *maker) localsJob() string {
	step := m.pick(`"${L}${L}"`, "[L, L]", "concat(L, L)", `replace(L, "a", "aa")`, `join(L, ["a", L, L])`, "{a = L, b = L}", "merge({x = L}, L)",
		`format("%s%s", L, L)`, "L", "setproduct([1,2], L)", "jsonencode([L, L])", "[for x in L : L]", "L + L", "L * L", "{\"${L}\" = L}", "jsonencode(L)", "true ? L : [L]")
	var b strings.Builder
	fmt.Fprintf(&b, "locals {\n l0 = %s\n", m.pick(`"aaaa"`, `["a"]`, "{a = 1}", "7", "range(100)", "local.l1", "9e999"))
	n := m.some(1200)
	for i := range n {
		fmt.Fprintf(&b, " l%d = %s\n", i+1, strings.ReplaceAll(step, "L", fmt.Sprintf("local.l%d", i)))
	}
	return jobText(b.String()+"}", "", fmt.Sprintf("config {\n command = %s\n}", m.pick("local.l1", fmt.Sprintf("local.l%d", n), fmt.Sprintf("\"${jsonencode(local.l%d)}\"", n))))
}

// variableJob has variables with types.
func (m *maker) variableJob() string {
	depth := 1 + m.IntN(60)
	if m.IntN(4) == 0 {
		depth = m.some(100_000)
	}
	open := m.pick("list(", "map(", "set(", "tuple([", "object({a=", "optional(")
	end := map[string]string{"tuple([": "])", "object({a=": "})"}[open]
	if end == "" {
		end = ")"
	}
	value, closed := m.pick("[", "{a=", "[[],"), "]"
	if value == "{a=" {
		closed = "}"
	}
	return jobText(fmt.Sprintf("variable \"x\" {\n type = %sany%s\n default = %s1%s\n}", strings.Repeat(open, depth), strings.Repeat(end, depth),
		strings.Repeat(value, depth), strings.Repeat(closed, depth)), "", "config {\n command = \"${jsonencode(var.x)}\"\n}")
}

// manyJob has many of something.
func (m *maker) manyJob() string {
	task := "driver = \"tacho\"\n config {\n command = \"true\"\n}"
	switch m.IntN(9) {
	case 0:
		return "job \"j\" {\n" + m.numbered("group \"g%d\" {\n task \"t\" {\n "+task+"\n }\n}\n") + "}"
	case 1:
		return "job \"j\" {\n group \"g\" {\n" + m.numbered("task \"t%d\" {\n "+task+"\n }\n") + "}\n}"
	case 2:
		return "job \"j\" {\n meta {\n" + m.numbered(" m%d = 1\n") + "}\n group \"g\" {\n" + m.numbered("task \"t%d\" {\n "+task+"\n }\n") + "}\n}"
	case 3:
		return jobText("", "", "env {\n"+m.numbered(" E%d = \"${env[\"X\"]}${NOMAD_META_x}\"\n")+"}\n config {\n command = \"true\"\n}")
	case 4:
		return jobText("", "", m.numbered(" unknown%d = 1\n")+"config {\n command = \"true\"\n}")
	case 5:
		return jobText("", "", m.repeat(m.pick("a {\n", "env {\n", "config {\n", "x {}\n", "template {\n data = \"\"\n destination = \"x\"\n}\n")))
	case 6:
		return jobText("", "meta {\n x = \""+m.repeat("a")+"\"\n}", "env {\n X = \""+m.repeat("${NOMAD_META_x}")+"\"\n}\n config {\n command = \"true\"\n}")
	case 7:
		return jobText("", "count = 10000", m.repeat("config {\n command = \"true\"\n}\n"))
	}
	return m.numbered("variable \"v%d\" {\n default = \"${x}\"\n}\n") + jobText("", "", "config {\n command = \"true\"\n}")
}

// templateJob has a template that the agent renders.
func (m *maker) templateJob() string {
	body := m.templateBody()
	fence := "E0T"
	return jobText("", "", "env {\n A = \""+m.repeat("a")+"\"\n}\ntemplate {\n data = <<"+fence+"\n"+strings.ReplaceAll(body, "${", "$${")+"\n"+fence+
		"\n destination = \"local/x\"\n"+m.pick("", "env = true\n", "left_delimiter = \"<\"\n")+"}\nconfig {\n command = \"true\"\n}")
}

func (m *maker) templateBody() string {
	switch m.IntN(9) {
	case 0:
		return fmt.Sprintf("{{ range %d }}%s{{ end }}", m.some(1<<30), m.pick("", "x", strings.Repeat("x", 1000), "{{ . }}", "{{ env \"A\" }}", "{{ printf \"%d\" . }}"))
	case 1:
		n := 1 + m.IntN(20)
		return strings.Repeat("{{ range 1000 }}", n) + m.pick("x", "{{ . }}", "") + strings.Repeat("{{ end }}", n)
	case 2:
		return "{{ $x := `xxxx` }}{{ range 100 }}{{ $x = " + m.pick("print $x $x", "replaceAll `x` $x $x", "js $x", "printf `%s%s` $x $x", "join $x (split `` $x)", "toUpper $x", "html $x") + " }}{{ end }}"
	case 3:
		open := m.pick("{{ if 1 }}", "{{ range 2 }}", "{{ with 1 }}", "{{ if 0 }}{{ else if 1 }}", "{{ define `a` }}", "{{ block `b` . }}")
		n := m.some(100_000)
		return strings.Repeat(open, n) + "x" + strings.Repeat("{{ end }}", n)
	case 4:
		n := m.some(100_000)
		return "{{ " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n) + " }}"
	case 5:
		return "{{ define `x` }}{{ template `x` }}" + m.pick("", "{{ template `x` }}") + "{{ end }}{{ template `x` }}"
	case 6:
		return "{{ $a := env `A` }}{{ $b := printf `%s` $a }}{{ range 1000000 }}{{ " + m.pick("eq $a $b", "contains $a $b", "trimSpace $a", "len $a", "index $a 1", "slice $a 1", "and (eq $a $b) (eq $a $b)", "split `` $a") + " }}{{ end }}"
	case 7:
		return m.repeat(m.pick("{{ . }}", "{{ env `A` }}", "{{ 1 | print | print }}", "{{/* x */}}", "{{ printf `%99999d` 1 }}", "A=1\n", "{{", "}}", "x=\n"))
	}
	return fmt.Sprintf("{{ range %d }}V{{ . }}=1\n{{ end }}", m.some(1<<30))
}

// textJob is hardly a job: signs at random, and comments without an end.
func (m *maker) textJob() string {
	switch m.IntN(4) {
	case 0:
		return m.repeat(m.pick("/*", "/* */", "#\n", "//", "/*\n", "/*/"))
	case 1:
		return m.repeat(m.pick("{", "}", "[", "(", "\"", "\n", "<<A\n", "a", "a=", "a \"b\" ", "\\", "\x00", "\xff", "\r", "~}", "${", "\"${\"%{", "1 ", "é"))
	case 2:
		signs := []string{"{", "}", "[", "]", "(", ")", "\"", "${", "%{", "~}", "<<A\n", "A\n", "\n", "=", "a", "1", ",", ".", "*", "-", "!", "?", ":", "for", "in", "if", "endif", "/*", "*/", "#", "=>", "...", " ", "\\", "$", "%"}
		var b strings.Builder
		for range m.some(200_000) {
			b.WriteString(signs[m.IntN(len(signs))])
		}
		return b.String()
	}
	return m.pick("a", "job \"", "variable \"") + m.repeat(m.pick("a", "\" \"a", "é")) + "\" {}"
}

// mutant is another hostile file, of which a part is repeated, left out or put elsewhere.
func (m *maker) mutant() string {
	text := HostileJob(m.Uint64())
	if m.IntN(2) == 0 {
		text = jobText("locals {\n x = [1, 2]\n}", "", "config {\n command = \"true\"\n args = [for a in local.x : \"${a}\"]\n}")
	}
	for range 1 + m.IntN(4) {
		if len(text) < 2 {
			break
		}
		from := m.IntN(len(text))
		to := min(len(text), from+m.some(200))
		part := text[from:to]
		switch m.IntN(3) {
		case 0:
			text = text[:from] + text[to:]
		case 1:
			text = text[:from] + m.repeat(part) + text[from:]
		default:
			at := m.IntN(len(text))
			text = text[:at] + part + text[at:]
		}
		text = text[:min(len(text), longest)]
	}
	return text
}
