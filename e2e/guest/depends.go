// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"strings"
)

// dependency is one alternative of a Depends field.
type dependency struct {
	name    string
	version string // of an exact "(= version)"; otherwise empty
}

// field returns a field of the first stanza of a Debian control file, its folded lines joined.
func field(control, name string) (string, bool) {
	stanza, _, _ := strings.Cut(control, "\n\n")
	stanza = strings.ReplaceAll(stanza, "\n ", " ")
	for line := range strings.Lines(stanza) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.EqualFold(key, name) {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// depends parses a relationship field (Debian Policy, section 7.1), alternatives in their order.
func depends(field string) []dependency {
	var all []dependency
	for one := range strings.FieldsFuncSeq(field, func(r rune) bool { return r == ',' || r == '|' }) {
		one, _, _ = strings.Cut(one, "[") // restriction to architectures
		name, restriction, _ := strings.Cut(one, "(")
		name, _, _ = strings.Cut(strings.TrimSpace(name), ":") // architecture qualifier
		if name == "" {
			continue
		}
		version := ""
		restriction, _, _ = strings.Cut(restriction, ")")
		if exact, ok := strings.CutPrefix(strings.TrimSpace(restriction), "="); ok {
			version = strings.TrimSpace(exact)
		}
		all = append(all, dependency{name, version})
	}
	return all
}

// image returns the package with the kernel that the metapackage described by control stands for.
func image(control string) (dependency, error) {
	value, ok := field(control, "Depends")
	if !ok {
		return dependency{}, fmt.Errorf("no Depends in %q", control)
	}
	for _, d := range depends(value) {
		if strings.HasPrefix(d.name, "linux-image-") && d.version != "" {
			return d, nil
		}
	}
	return dependency{}, fmt.Errorf("no linux-image-* of an exact version in Depends: %s", value)
}
