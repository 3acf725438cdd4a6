// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package chart

import (
	_ "embed"
	"strings"
)

// What is inside the axes of a chart, what an image has around it, and what a page has.
var (
	//go:embed svg.css
	svgStyle string
	//go:embed image.css
	aroundImage string
	//go:embed page.css
	aroundPage string
	//go:embed chart.js
	script string
)

// colour is a colour by what it means, for light and for dark screens.
type colour struct{ name, light, dark string }

// palette is the colours of charts: cpu is green, memory is violet, storage is blue and ochre, a limit is red. Those
// without a meaning are for details.
func palette() []colour {
	return []colour{
		{"sheet", "#fdfefc", "#141b18"},
		{"ink", "#15201b", "#e2ebe6"},
		{"soft", "#51605a", "#9fb0a8"},
		{"rule", "#d3dbd5", "#2b3731"},
		{"grid", "#e4eae6", "#1f2924"},
		{"cpu", "#0b6b54", "#5fc9a9"},
		{"memory", "#4b479f", "#a5a0f5"},
		{"memory-area", "#9b99c9", "#646492"},
		{"cache", "#b3b1df", "#4c4991"},
		{"cache-area", "#d8d8ee", "#303254"},
		{"read", "#23619e", "#79b2ee"},
		{"write", "#9a5b00", "#e3a857"},
		{"limit", "#b3261c", "#ff8a7a"},
		{"bad", "#ab2219", "#ff9a8c"},
		{"first", "#3f83b5", "#5f9fd0"},
		{"second", "#b0642a", "#d08a55"},
		{"third", "#8a5a80", "#c08ab5"},
	}
}

// Style is the style sheet of charts in a page. It defines the colours as variables, which the page may use too.
func Style() string {
	var light, dark strings.Builder
	for _, c := range palette() {
		light.WriteString(" --" + c.name + ": " + c.light + ";")
		dark.WriteString(" --" + c.name + ": " + c.dark + ";")
	}
	return ":root {" + light.String() + " }\n@media (prefers-color-scheme: dark) { :root {" + dark.String() + " } }\n" + svgStyle + aroundPage
}

// imageStyle is the style sheet of an image. Not all that show SVG know variables, so each colour is written out.
func imageStyle() string {
	var light, dark []string
	for _, c := range palette() {
		light = append(light, "var(--"+c.name+")", c.light)
		dark = append(dark, "var(--"+c.name+")", c.dark)
	}
	rules := aroundImage + svgStyle
	return strings.NewReplacer(light...).Replace(rules) +
		"@media (prefers-color-scheme: dark) {\n" + strings.NewReplacer(dark...).Replace(rules) + "}\n"
}

// Script reads charts of a page out under the pointer and the arrow keys.
func Script() string { return script }
