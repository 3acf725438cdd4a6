// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Limits on the text of a job file. Evaluation in a trial bounds everything else, see Check.
const (
	// MaxSource bounds the text of a job file in bytes.
	MaxSource = 1 << 20
	// maxNesting bounds brackets and strings within each other: encoding/json reads the stored job, and stops at 10,000.
	maxNesting = 100
)

// checkText reports what is too large in a text for the parser.
func checkText(text []byte, filename string) hcl.Diagnostics {
	if len(text) > MaxSource {
		detail := fmt.Sprintf("%d bytes; a job file can have %d: let tasks read large data from files", len(text), MaxSource)
		return tooLarge(startOf(filename), detail)
	}
	depth := 0
	tokens, _ := hclsyntax.LexConfig(text, filename, hcl.InitialPos) // the parser reports what is wrong
	for _, t := range tokens {
		switch t.Type { //nolint:exhaustive // only what opens or closes something
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
			hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
			hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			depth = max(0, depth-1)
		}
		if depth > maxNesting {
			return tooLarge(t.Range, fmt.Sprintf(
				"brackets nested more than %d deep; give parts of the value names in a locals block", maxNesting))
		}
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
