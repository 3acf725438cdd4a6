// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Limits on the text of a job file, which are checked before it is parsed: the parser and the evaluation of HCL
// recurse, and a stack overflow ends the process.
const (
	// MaxSource bounds the text of a job file in bytes.
	MaxSource = 1 << 20
	// maxNesting bounds brackets of all kinds within each other, and the directives of templates.
	maxNesting = 100
	// maxOperators bounds the operators in the value of one attribute.
	maxOperators = 5000
)

// textLimits walks the tokens of a text.
type textLimits struct {
	nesting   []frame
	operators int
}

// frame is a bracket, a string or a heredoc that is open.
type frame struct {
	close hclsyntax.TokenType
	// body is true for braces around a body, in which a newline ends an expression.
	body bool
	// directives are the %{ if } and %{ for } that are open.
	directives int
}

// checkText reports what is too large in a text for the parser.
func checkText(text []byte, filename string) hcl.Diagnostics {
	if len(text) > MaxSource {
		detail := fmt.Sprintf("%d bytes; a job file can have %d: let tasks read large data from files", len(text), MaxSource)
		return tooLarge(startOf(filename), detail)
	}
	tokens, _ := hclsyntax.LexConfig(text, filename, hcl.InitialPos) // the parser reports what is wrong
	l := textLimits{nesting: []frame{{body: true}}}
	previous := hclsyntax.TokenNewline
	for i, t := range tokens {
		if problem := l.token(t.Type, previous, tokens[min(i+1, len(tokens)-1)].Bytes); problem != "" {
			return tooLarge(t.Range, problem+"; give parts of the value names in a locals block")
		}
		previous = t.Type
	}
	return nil
}

func tooLarge(at hcl.Range, detail string) hcl.Diagnostics {
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Too large", Detail: detail, Subject: &at}}
}

// startOf is the place of what is wrong with a file as a whole.
func startOf(filename string) hcl.Range {
	return hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos}
}

// closing are the tokens that end what other tokens begin.
func closing(t hclsyntax.TokenType) (end hclsyntax.TokenType, ok bool) {
	switch t { //nolint:exhaustive // only what opens something
	case hclsyntax.TokenOBrace:
		return hclsyntax.TokenCBrace, true
	case hclsyntax.TokenOBrack:
		return hclsyntax.TokenCBrack, true
	case hclsyntax.TokenOParen:
		return hclsyntax.TokenCParen, true
	case hclsyntax.TokenOQuote:
		return hclsyntax.TokenCQuote, true
	case hclsyntax.TokenOHeredoc:
		return hclsyntax.TokenCHeredoc, true
	case hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		return hclsyntax.TokenTemplateSeqEnd, true
	}
	return 0, false
}

// token returns what is too large once a token follows another, and is followed by a text.
func (l *textLimits) token(t, previous hclsyntax.TokenType, next []byte) (problem string) {
	top := &l.nesting[len(l.nesting)-1]
	switch t { //nolint:exhaustive // the others neither nest nor recurse
	case hclsyntax.TokenNewline:
		if top.body {
			l.operators = 0
		}
	case top.close:
		if len(l.nesting) > 1 {
			l.nesting = l.nesting[:len(l.nesting)-1]
		}
		return ""
	case hclsyntax.TokenTemplateControl:
		top.directive(string(next))
		l.operators++
	case hclsyntax.TokenOBrack, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent, hclsyntax.TokenPlus,
		hclsyntax.TokenMinus, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan,
		hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenAnd,
		hclsyntax.TokenOr, hclsyntax.TokenBang, hclsyntax.TokenQuestion:
		l.operators++
	}
	if l.operators > maxOperators {
		return fmt.Sprintf("more than %d operators in one expression", maxOperators)
	}
	end, opens := closing(t)
	if !opens {
		return ""
	}
	// A body has a name before its brace, an object a sign.
	named := previous == hclsyntax.TokenIdent || previous == hclsyntax.TokenCQuote
	l.nesting = append(l.nesting, frame{close: end, body: t == hclsyntax.TokenOBrace && top.body && named})
	if l.depth() > maxNesting {
		return fmt.Sprintf("brackets nested more than %d deep", maxNesting)
	}
	return ""
}

func (l *textLimits) depth() int {
	depth := len(l.nesting) - 1
	for i := range l.nesting {
		depth += l.nesting[i].directives
	}
	return depth
}

// directive counts a template's %{ if } and %{ for } that are open. keyword is what follows the sign.
func (f *frame) directive(keyword string) {
	switch keyword {
	case "endif", "endfor":
		f.directives = max(0, f.directives-1)
	case "else":
	default: // a comment before the keyword too
		f.directives++
	}
}
