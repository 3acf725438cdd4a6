// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"maps"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// places are where the files say what they say, by key: "telemetry.collection_interval".
type places map[string]hcl.Range

// with returns the places with those of one more file.
func (p places) with(body hcl.Body) places {
	all := maps.Clone(p)
	if all == nil {
		all = places{}
	}
	if native, ok := body.(*hclsyntax.Body); ok {
		all.add("", native)
	}
	return all
}

func (p places) add(prefix string, body *hclsyntax.Body) {
	for name, attribute := range body.Attributes {
		p[prefix+name] = attribute.Expr.Range()
	}
	for _, block := range body.Blocks {
		if len(block.Labels) == 0 { // those of plugins are checked by the plugins
			p.add(prefix+block.Type+".", block.Body)
		}
	}
}

// said returns the first of the keys that a file says; the first of all where none does.
func (p places) said(keys ...string) string {
	for _, key := range keys {
		if _, ok := p[key]; ok {
			return key
		}
	}
	return keys[0]
}

// fault is what came of a value, with its place where a file says it.
func (p places) fault(key string, err error) error {
	if at, said := p[key]; said {
		return fmt.Errorf("%s: %s: %w", at, key, err)
	}
	return fmt.Errorf("configuration: %s: %w", key, err)
}

// wrong is the mistake in a value, with its place where a file says it.
func (p places) wrong(key, format string, args ...any) error {
	detail := key + " " + fmt.Sprintf(format, args...)
	at, said := p[key]
	if !said {
		return fmt.Errorf("configuration: %s", detail)
	}
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Wrong value", Detail: detail, Subject: &at}
}
