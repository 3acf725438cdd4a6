// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package chart

import (
	"fmt"
	"strings"
)

// Bars are parts of a whole.
type Bars struct {
	Title string
	Rows  []Bar
}

// Bar is one part.
type Bar struct {
	// Share is how much of the whole it is, 0 to 1.
	Share float64
	// Label says of what it is a part, Value how much it is.
	Label, Value string
}

// The layout of bars in an image, in pixels.
const (
	barsTop   = 32 // below the title
	barHeight = 22
	barLeft   = 170
	barRoom   = 560
)

// height is what bars take in an image; 0 without any.
func (b *Bars) height() int {
	if b == nil || len(b.Rows) == 0 {
		return 0
	}
	return barsTop + len(b.Rows)*barHeight + 28
}

// image draws the bars below each other, the longest possible as wide as there is room.
func (b *Bars) image(w *strings.Builder) {
	fmt.Fprintf(w, `<text class="caption" y="18">%s</text>`+"\n", escape(b.Title))
	for i, row := range b.Rows {
		y := barsTop + i*barHeight
		width := barRoom * min(1, max(0, row.Share))
		fmt.Fprintf(w, `<text class="tick y" x="%d" y="%d">%s</text>`, barLeft-10, y+14, escape(fit(row.Label, 24)))
		fmt.Fprintf(w, `<rect class="bar" x="%d" y="%d" width="%s" height="%d"/>`, barLeft, y+2, place(width), barHeight-6)
		fmt.Fprintf(w, `<text class="tick" x="%s" y="%d">%s</text>`+"\n", place(barLeft+width+8), y+14, escape(row.Value))
	}
}
