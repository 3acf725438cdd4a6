// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// longest is how long a text gets: somewhat more than a job file may be.
const longest = 1<<20 + 1<<12

// HostileJob returns a job file that is meant to take all memory, all time or the stack of the agent that reads it. The same
// seed makes the same file.
func HostileJob(seed uint64) string {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 9))}
	makers := []func() string{
		m.expressionJob, m.expressionJob, m.expressionJob, m.expressionJob, m.templateJob, m.templateJob, m.localsJob, m.manyJob,
		m.variableJob, m.textJob, m.mutant,
	}
	text := makers[m.IntN(len(makers))]()
	return text[:min(len(text), longest)]
}

// maker makes texts at random.
type maker struct{ *rand.Rand }

// some is a number up to most, small ones as often as large ones.
func (m *maker) some(most int) int {
	n := 1
	for n < most && m.IntN(8) > 0 {
		n *= 2 + m.IntN(5)
	}
	return min(n, most)
}

func (m *maker) pick(words ...string) string { return words[m.IntN(len(words))] }

// repeat repeats a text, up to the longest file.
func (m *maker) repeat(text string) string {
	return strings.Repeat(text, m.some(max(1, longest/max(1, len(text)))))
}

// jobText is a job file with a task, in which some places are filled.
func jobText(head, group, task string) string {
	return head + "\njob \"j\" {\n  type = \"batch\"\n  group \"g\" {\n" + group + "\n    task \"t\" {\n      driver = \"tacho\"\n" + task + "\n    }\n  }\n}\n"
}

// place puts an expression somewhere into a job.
func (m *maker) place(expr string) string {
	config := func(body string) string { return jobText("", "", "config {\n command = \"true\"\n "+body+"\n}") }
	switch m.IntN(9) {
	case 0:
		return jobText("locals {\n x = "+expr+"\n}", "", "config {\n command = \"${local.x}\"\n}")
	case 1:
		return jobText("variable \"x\" {\n default = "+expr+"\n}", "", "config {\n command = \"true\"\n}")
	case 2:
		return jobText("", "count = "+expr, "config {\n command = \"true\"\n}")
	case 3:
		return jobText("", "meta = { x = "+expr+" }", "config {\n command = \"${NOMAD_META_x}\"\n}")
	case 4:
		return jobText("", "", "env {\n X = "+expr+"\n}\nconfig {\n command = \"true\"\n args = [\"${env[\"X\"]}\"]\n}")
	case 5:
		return jobText("", "", "template {\n data = "+expr+"\n destination = \"local/x\"\n}\nconfig {\n command = \"true\"\n}")
	case 6:
		return config("unknown = " + expr)
	}
	return config("args = [" + expr + "]")
}

func (m *maker) expressionJob() string { return m.place(m.expression()) }

// expression is a hostile one.
func (m *maker) expression() string {
	kinds := []func() string{m.nested, m.chain, m.list, m.loop, m.call, m.number, m.longText, m.directives, m.references}
	return kinds[m.IntN(len(kinds))]()
}

// nested is brackets in brackets.
func (m *maker) nested() string {
	pairs := [][2]string{
		{"(", ")"},
		{"[", "]"},
		{"{a=", "}"},
		{"\"${", "}\""},
		{"{\"${", "}\"=1}"},
		{"-(", ")"},
		{"abs(", ")"},
		{"[for x in [1]: ", "]"},
		{"[0][", "]"},
		{"true ? [", "] : [1]"},
		{"\"%{if true}${", "}%{endif}\""},
		{"jsonencode(", ")"},
		{"{for x in [1]: \"a\" => ", "}"},
		{"[1][*][", "]"},
		{"[for x in [1]: x if ", "]"},
		{"true ? {a=", "} : {a=1,b=2}"},
		{"<<X\n${", "}\nX\n"},
	}
	depth := m.some(200_000)
	if m.IntN(2) == 0 {
		depth = 1 + m.IntN(49)
	}
	var open, closed strings.Builder
	var ends []string
	for range depth {
		pair := pairs[m.IntN(len(pairs))]
		if m.IntN(4) > 0 {
			pair = pairs[depth%len(pairs)]
		}
		open.WriteString(pair[0])
		ends = append(ends, pair[1])
		if open.Len() > longest {
			break
		}
	}
	if m.IntN(4) > 0 {
		for i := len(ends) - 1; i >= 0 && open.Len()+closed.Len() < longest; i-- {
			closed.WriteString(ends[i])
		}
	}
	return open.String() + m.pick("1", "true", `"a"`, "[]", "null") + closed.String()
}

// chain is operators after each other.
func (m *maker) chain() string {
	if m.IntN(3) == 0 {
		return m.repeat(m.pick("!", "-", "!-", "true ? 1 : ", "false ? [1] : ", "- -")) + m.pick("1", "true")
	}
	operand := m.pick("1", "true", `"a"`, "a", "[]", "9e99", `"7"`, "null", "0.1")
	return operand + m.repeat(m.pick("+", "-", "*", "/", "%", "==", "!=", "<", "&&", "||", "[0]", "[*]", ".*", ".0", ".a", "[a]", "?1:")+m.pick(operand, ""))
}

// list is elements, items or arguments beside each other.
func (m *maker) list() string {
	element := m.pick("1", `"a"`, "a", "[]", "{}", "{a=1}", "true", "null", "[1,\"a\"]", "1.5e-300", "\"${a}\"", "[[],[1]]")
	other := m.pick("", "", ",\"b\"", ",{}", ",[[]]", ",null")
	switch m.IntN(5) {
	case 0:
		return "{" + m.numbered("a%d = "+element+"\n") + "}"
	case 1:
		return m.function() + "(" + m.repeat(element+",") + "1)"
	case 2:
		return m.function() + "([" + m.repeat(element+",") + "1" + other + "])"
	case 3:
		return "true ? [" + m.repeat(element+",") + "1" + other + "] : [1]"
	}
	return "[" + m.repeat(element+",") + "1" + other + "]"
}

// numbered repeats a text with a number in it.
func (m *maker) numbered(format string) string {
	var b strings.Builder
	for i := range m.some(longest / len(format)) {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// loop is for expressions in each other.
func (m *maker) loop() string {
	expr := m.pick("1", "x0", `"${x0}"`, "[x0]", "{a = x0}", `format("%999d", x0)`, "null", "undefined", "local.none")
	for i := range m.IntN(12) {
		over := m.pick("range(1000)", "range(1024)", "[1,2,3]", `split("", format("%9999d", 1))`, fmt.Sprintf("[x%d]", i+1), "[for y in range(1000) : y]", "{a=1}")
		switch m.IntN(6) {
		case 0:
			expr = fmt.Sprintf(`{for k, x%d in %s : "${k}" => %s}`, i, over, expr)
		case 1:
			expr = fmt.Sprintf(`{for x%d in %s : "k" => %s...}`, i, over, expr)
		case 2:
			expr = fmt.Sprintf("[for x%d in %s : 1 if %s != 2]", i, over, expr)
		case 3:
			expr = fmt.Sprintf("%s[*][%s]", over, expr)
		case 4:
			expr = fmt.Sprintf("\"%%{ for x%d in %s }${jsonencode(%s)}%%{ endfor }\"", i, over, expr)
		default:
			expr = fmt.Sprintf("[for x%d in %s : %s]", i, over, expr)
		}
	}
	return expr
}

func (m *maker) function() string {
	return m.pick("abs", "ceil", "chomp", "chunklist", "coalesce", "coalescelist", "compact", "concat", "contains", "csvdecode",
		"distinct", "element", "flatten", "floor", "format", "formatdate", "formatlist", "indent", "index", "join", "jsondecode",
		"jsonencode", "keys", "length", "log", "lookup", "lower", "max", "merge", "min", "parseint", "pow", "range", "regex", "regexall",
		"regex_replace", "replace", "reverse", "setintersection", "setproduct", "setunion", "signum", "slice", "sort", "split", "strlen",
		"strrev", "substr", "title", "trim", "trimprefix", "trimspace", "trimsuffix", "upper", "values", "zipmap", "nothing")
}

// call is functions of functions.
func (m *maker) call() string {
	if m.IntN(4) == 0 {
		return m.pattern()
	}
	expr := m.pick(`"a"`, "1", "range(1000)", `"`+m.repeat("a")+`"`, `"`+m.repeat("1")+`"`, `"`+m.repeat("[")+`"`, `"`+m.repeat("a,")+`"`,
		`"`+m.repeat(`\n`)+`"`, "1e4000", `"%999999d"`, `"%*d"`, "-1", `"`+m.repeat(`{\"a\":`)+`"`, `"`+m.repeat("1,")+`"`, "null")
	for range m.some(40) {
		args := []string{expr}
		for range m.IntN(3) {
			args = append(args, m.pick(expr, `""`, `","`, "1", "2", "1000", "100000000", "range(100)", `"x"`, "[]", `"%s"`, `"%1000000s"`, `"a"`))
		}
		m.Shuffle(len(args), func(i, j int) { args[i], args[j] = args[j], args[i] })
		expr = m.function() + "(" + strings.Join(args, ", ") + ")"
		if len(expr) > longest {
			break
		}
	}
	return expr
}

// pattern is regular expressions.
func (m *maker) pattern() string {
	pattern := m.pick("a", "(a*)*b", "(a{1000})", "[[:alpha:]]{999}", m.repeat("("), m.repeat("a|"), m.repeat("a{9}"), "(x+x+)+y", ".*.*.*=.*")
	text := m.pick(`"`+m.repeat("a")+`"`, `format("%900000d", 1)`, `"x"`)
	return m.pick(
		fmt.Sprintf(`regexall("%s", %s)`, pattern, text), fmt.Sprintf(`regex_replace(%s, "%s", "$0$0$0")`, text, pattern),
		fmt.Sprintf(`[for i in range(1000) : regexall("%s", %s)]`, pattern, text))
}

// number is one that is hard to read or to write.
func (m *maker) number() string {
	n := m.pick(m.repeat("9"), "1e"+m.repeat("9"), "1e-"+m.repeat("9"), "0."+m.repeat("3"), "1"+m.repeat("."), m.repeat("1."), "1e2000000000", "1e-99999")
	return m.pick(n, `"${`+n+`}"`, `"`+n+`" + 1`, `jsonencode("`+n+`" * 2)`, `jsondecode("`+n+`")`, "["+n+"]", `abs("`+n+`")`, "-"+n, n+" * "+n)
}

// longText is a string or a heredoc.
func (m *maker) longText() string {
	part := m.pick("a", " ", "$", "%", "$$", "\\n", "é", "$x", "/*", "#", "${1}", "${a}", "%%{", "a\\\"")
	switch m.IntN(3) {
	case 0:
		return "<<X\n" + m.repeat(m.pick("\n", "a\n", "$\n", part+"\n", strings.Repeat("x", 100)+"\n", "X \n\t")) + "\nX\n"
	case 1:
		return "<<-X\n" + m.repeat("  "+part+"\n") + "\n  X\n"
	}
	return `"` + m.repeat(part) + `"`
}

// directives are templates within strings.
func (m *maker) directives() string {
	open, end := m.pick("%{if true}", "%{for a in [1,2]}", "%{ if true ~}a%{else}", "%{/* */ if true}"), m.pick("%{endif}", "%{endfor}")
	if strings.Contains(open, "for") {
		end = "%{endfor}"
	}
	n := m.some(50_000)
	return `"` + strings.Repeat(open, n) + m.pick("x", "${a}", "") + strings.Repeat(end, n) + `"`
}

// references are variables, known and unknown, many times.
func (m *maker) references() string {
	name := m.pick("env.a", "a", "meta.x.y", "attr[\"b\"]", "NOMAD_META_x", "local.none", "var.none", "env[\"PATH\"]", "node.unique.name", "each.x")
	if m.IntN(3) == 0 {
		return `"` + m.numbered("${"+strings.ReplaceAll(name, `"`, `\"`)+"%d}") + `"`
	}
	return `"` + m.repeat("${"+name+"}") + `"`
}
