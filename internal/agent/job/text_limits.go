// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"bytes"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Limits on the text of a job file, held before it is parsed: the parser and the evaluation of HCL recurse, and a stack
// that overflows ends the process.
const (
	// MaxSource bounds the text of a job file in bytes.
	MaxSource = 1 << 20
	// maxFilename bounds its name, which stands in every message.
	maxFilename = 4096
	// maxNesting bounds brackets of all kinds within each other, and the directives of templates.
	maxNesting = 100
	// maxOperators bounds the operators in the value of one attribute.
	maxOperators = 5000
	// maxTokens bounds names, numbers, signs, strings and lines of heredocs together.
	maxTokens = 40_000
	// maxNumber bounds the digits of a number.
	maxNumber = 400
	// maxLines bounds the pieces of one text, which are a heredoc's lines: the parser joins them one by one, and so
	// copies a text as often as it has pieces, of which maxCopied is the bound in bytes.
	maxLines  = 8000
	maxCopied = 1 << 30
	// maxUnclosed bounds what the scanner reads in search of the ends of comments.
	maxUnclosed = 64 << 20
)

// textLimits walks the tokens of a text.
type textLimits struct {
	nesting   []frame
	operators int
	diags     hcl.Diagnostics
}

// frame is a bracket, a string or a heredoc that is open.
type frame struct {
	close hclsyntax.TokenType
	// body is true for braces around a body, in which a newline ends an expression.
	body bool
	// directives are the %{ if } and %{ for } that are open, pieces and bytes what a text consists of.
	directives, pieces, bytes int
}

// checkText reports what is too large in a text for the parser.
func checkText(text []byte, filename string) hcl.Diagnostics {
	start := hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos}
	if len(text) > MaxSource {
		return tooLarge(start, fmt.Sprintf("%d bytes; a job file can have %d: let tasks read large data from files", len(text), MaxSource))
	}
	if open := text[bytes.LastIndex(text, []byte("*/"))+1:]; bytes.Count(open, []byte("/*"))*len(open) > maxUnclosed {
		return tooLarge(start, "comments that begin with /* are not closed; close them with */")
	}
	tokens := scan(text, filename)
	l := textLimits{nesting: []frame{{body: true}}}
	for i := range tokens {
		if i == maxTokens {
			return tooLarge(tokens[i].Range, fmt.Sprintf(
				"more than %d names, numbers, signs and lines up to here; split the job, or let tasks read data from files", maxTokens))
		}
		previous := hclsyntax.TokenNewline
		if i > 0 {
			previous = tokens[i-1].Type
		}
		if l.token(&tokens[i], previous, tokens[min(i+1, len(tokens)-1)].Bytes); l.diags != nil {
			return l.diags
		}
	}
	return nil
}

func tooLarge(at hcl.Range, detail string) hcl.Diagnostics {
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Too large", Detail: detail, Subject: &at}}
}

// scan returns the tokens of a text, or more than maxTokens of a part of it: a token takes a hundred times the memory of
// a byte. What the scanner makes of the beginning of a text does not depend on the rest.
func scan(text []byte, filename string) hclsyntax.Tokens {
	const step = 3 * maxTokens
	for end := step; ; end += step {
		part := text[:min(end, len(text))]
		tokens, _ := hclsyntax.LexConfig(part, filename, hcl.InitialPos) // the parser reports what is wrong
		if len(part) == len(text) || len(tokens) > maxTokens {
			return tokens
		}
	}
}

func (l *textLimits) token(t *hclsyntax.Token, previous hclsyntax.TokenType, next []byte) {
	top := &l.nesting[len(l.nesting)-1]
	switch t.Type {
	case hclsyntax.TokenOBrace:
		// A body has a name before it, an object a sign.
		body := top.body && (previous == hclsyntax.TokenIdent || previous == hclsyntax.TokenCQuote)
		l.open(t, frame{close: hclsyntax.TokenCBrace, body: body})
	case hclsyntax.TokenOBrack:
		l.operator(t)
		l.open(t, frame{close: hclsyntax.TokenCBrack})
	case hclsyntax.TokenOParen:
		l.open(t, frame{close: hclsyntax.TokenCParen})
	case hclsyntax.TokenOQuote:
		l.open(t, frame{close: hclsyntax.TokenCQuote})
	case hclsyntax.TokenOHeredoc:
		l.open(t, frame{close: hclsyntax.TokenCHeredoc})
	case hclsyntax.TokenTemplateInterp:
		l.open(t, frame{close: hclsyntax.TokenTemplateSeqEnd})
	case hclsyntax.TokenTemplateControl:
		l.directive(top, next)
		l.operator(t)
		l.open(t, frame{close: hclsyntax.TokenTemplateSeqEnd})
	case hclsyntax.TokenStringLit, hclsyntax.TokenQuotedLit:
		l.piece(t, top)
	case hclsyntax.TokenNumberLit:
		if len(t.Bytes) > maxNumber {
			l.diags = tooLarge(t.Range, fmt.Sprintf("a number of %d digits; a number can have %d", len(t.Bytes), maxNumber))
		}
	case hclsyntax.TokenNewline:
		if top.body {
			l.operators = 0
		}
	case top.close:
		if len(l.nesting) > 1 {
			l.nesting = l.nesting[:len(l.nesting)-1]
		}
	case hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent, hclsyntax.TokenPlus, hclsyntax.TokenMinus,
		hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq,
		hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenBang,
		hclsyntax.TokenQuestion:
		l.operator(t)
	}
}

func (l *textLimits) open(t *hclsyntax.Token, f frame) {
	l.nesting = append(l.nesting, f)
	depth := len(l.nesting) - 1
	for i := range l.nesting {
		depth += l.nesting[i].directives
	}
	if depth > maxNesting {
		l.diags = tooLarge(t.Range, fmt.Sprintf("brackets nested more than %d deep; give parts of the value names in a locals block", maxNesting))
	}
}

func (l *textLimits) operator(t *hclsyntax.Token) {
	if l.operators++; l.operators > maxOperators {
		l.diags = tooLarge(t.Range, fmt.Sprintf("more than %d operators in one expression; give parts of it names in a locals block", maxOperators))
	}
}

// directive follows a template's %{ if }, %{ for } and their ends. keyword is what stands after the sign.
func (l *textLimits) directive(text *frame, keyword []byte) {
	switch string(keyword) {
	case "endif", "endfor":
		text.directives = max(0, text.directives-1)
	case "else":
	default: // a comment before the keyword too
		text.directives++
	}
}

func (l *textLimits) piece(t *hclsyntax.Token, text *frame) {
	text.pieces++
	text.bytes += len(t.Bytes)
	if text.pieces > maxLines || text.pieces*text.bytes/2 > maxCopied {
		l.diags = tooLarge(t.Range, fmt.Sprintf(
			"a text of %d lines and %d bytes up to here; let the task read large data from a file, or split the text", text.pieces, text.bytes))
	}
}
