// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package chart

import (
	"fmt"
	"html"
	"io"
	"strings"
	"unicode"

	gochart "github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

// The size of an image, in pixels.
const (
	imageWidth  = 1000
	titleHeight = 40
	panelHeight = 240
	margin      = 20
	// legendHeight is the strip above a panel for its title and legend.
	legendHeight = 46
)

// WriteSVG writes the panels below each other as an SVG image.
func WriteSVG(w io.Writer, title string, panels []Panel) error {
	return write(w, gochart.SVG, escapeXML, title, panels)
}

// WritePNG writes the panels below each other as a PNG image.
func WritePNG(w io.Writer, title string, panels []Panel) error {
	return write(w, gochart.PNG, func(text string) string { return text }, title, panels)
}

// escapeXML makes a text safe for the SVG renderer, which writes it as it is. XML has no way to write most control
// characters. (encoding/xml would do it, and cost every process of the binary 20 KiB at its start.)
func escapeXML(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0xFFFE || r == 0xFFFF {
			return unicode.ReplacementChar
		}
		return r
	}, text))
}

func write(w io.Writer, canvas gochart.RendererProvider, escape func(string) string, title string, panels []Panel) error {
	page, err := canvas(imageWidth, titleHeight+len(panels)*panelHeight)
	if err != nil {
		return fmt.Errorf("draw chart: %w", err)
	}
	font, err := gochart.GetDefaultFont()
	if err != nil {
		return fmt.Errorf("draw chart: %w", err)
	}
	page.SetDPI(gochart.DefaultDPI)
	drawTitle(page, gochart.Style{Font: font, FontSize: 11, FontColor: ink()}, escape(fit(title, 110)), len(panels))
	end := End(panels)
	labels := 0
	for _, panel := range panels {
		labels = max(labels, labelWidth(page, panel))
	}
	for i, panel := range panels {
		part := &area{Renderer: page, top: titleHeight + i*panelHeight, escape: escape}
		if err := drawPanel(part, panel, end, labels); err != nil {
			return fmt.Errorf("draw chart %q: %w", panel.Title, err)
		}
	}
	return page.Save(w)
}

func drawTitle(page gochart.Renderer, style gochart.Style, title string, panels int) {
	gochart.Draw.Box(page, gochart.Box{Right: imageWidth, Bottom: titleHeight + panels*panelHeight},
		gochart.Style{FillColor: drawing.ColorWhite, StrokeColor: drawing.ColorWhite, StrokeWidth: 1})
	gochart.Draw.Text(page, title, margin, titleHeight-margin/2, style)
}

// fit cuts a text off where it is too long for its line.
func fit(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// area is a part of the page: everything is drawn so far down, and texts are escaped where the page needs that.
type area struct {
	gochart.Renderer
	top    int
	escape func(string) string
}

func (a *area) MoveTo(x, y int)                      { a.Renderer.MoveTo(x, y+a.top) }
func (a *area) LineTo(x, y int)                      { a.Renderer.LineTo(x, y+a.top) }
func (a *area) QuadCurveTo(cx, cy, x, y int)         { a.Renderer.QuadCurveTo(cx, cy+a.top, x, y+a.top) }
func (a *area) Circle(radius float64, x, y int)      { a.Renderer.Circle(radius, x, y+a.top) }
func (a *area) Text(body string, x, y int)           { a.Renderer.Text(a.escape(body), x, y+a.top) }
func (a *area) ArcTo(x, y int, rx, ry, s, d float64) { a.Renderer.ArcTo(x, y+a.top, rx, ry, s, d) }

// Save leaves saving to the page.
func (a *area) Save(io.Writer) error { return nil }

func drawPanel(part *area, panel Panel, end float64, labels int) error {
	values := valueTicks(panel.Unit, panel.highest())
	top := values[len(values)-1].value
	axis := libraryTicks(values)
	graph := gochart.Chart{
		Width:  imageWidth,
		Height: panelHeight,
		// Panels share one time axis: those with narrow labels get the rest as padding.
		Background: gochart.Style{Padding: gochart.Box{
			Top: legendHeight, Left: margin + labels - labelWidth(part, panel), Right: margin, Bottom: margin / 2,
		}},
		XAxis: gochart.XAxis{Ticks: libraryTicks(timeTicks(max(end, 1e-3), 10)), Style: axisStyle(), GridMajorStyle: gridStyle(), GridMinorStyle: gridStyle()},
		// The library puts its secondary axis on the left, and takes its range from the primary one's ticks.
		YAxis:          gochart.YAxis{Ticks: axis, Style: gochart.Hidden()},
		YAxisSecondary: gochart.YAxis{Ticks: axis, Style: axisStyle(), GridMajorStyle: gridStyle(), GridMinorStyle: gridStyle()},
		Series:         []gochart.Series{frame(end, top)},
	}
	lines := panel.drawable(top)
	for i, line := range lines {
		for _, stretch := range line.Stretches() {
			graph.Series = append(graph.Series, stretchSeries(stretch, lineStyle(line, i)))
		}
	}
	graph.Elements = []gochart.Renderable{func(r gochart.Renderer, box gochart.Box, style gochart.Style) {
		drawLegend(r, box, style, panel, lines)
	}}
	return graph.Render(func(int, int) (gochart.Renderer, error) { return part, nil }, io.Discard)
}

// frame is an invisible line that spans the panel, for the library wants at least one.
func frame(end, top float64) gochart.Series {
	return gochart.ContinuousSeries{
		YAxis: gochart.YAxisSecondary, XValues: []float64{0, max(end, 1e-3)}, YValues: []float64{0, top},
		Style: gochart.Style{StrokeColor: drawing.ColorTransparent, StrokeWidth: gochart.Disabled},
	}
}

// stretchSeries is one unbroken stretch of a line, in steps.
func stretchSeries(steps []Step, style gochart.Style) gochart.Series {
	s := gochart.ContinuousSeries{YAxis: gochart.YAxisSecondary, Style: style}
	for _, step := range thin(steps) {
		s.XValues = append(s.XValues, step.From, step.To)
		s.YValues = append(s.YValues, step.Value, step.Value)
	}
	return s
}

// thin keeps a long stretch drawable: of every so many steps the smallest and the largest, in their order.
func thin(steps []Step) []Step {
	const most = 2 * imageWidth
	if len(steps) <= most {
		return steps
	}
	every := 2 * ((len(steps) + most - 1) / most)
	var kept []Step
	for first := 0; first < len(steps); first += every {
		group := steps[first:min(first+every, len(steps))]
		low, high := 0, 0
		for i, step := range group {
			if step.Value < group[low].Value {
				low = i
			}
			if step.Value > group[high].Value {
				high = i
			}
		}
		kept = append(kept, group[min(low, high)])
		if low != high {
			kept = append(kept, group[max(low, high)])
		}
	}
	return kept
}

// drawLegend writes the panel's title, and below it what each line is.
func drawLegend(r gochart.Renderer, box gochart.Box, defaults gochart.Style, panel Panel, lines []Line) {
	text := gochart.Style{Font: defaults.Font, FontSize: 9, FontColor: ink()}
	title := panel.Title
	if panel.Missing != "" {
		title = fit(title+": not measured ("+panel.Missing+")", 150)
	}
	gochart.Draw.Text(r, title, box.Left, box.Top-26, text)
	const dash, gap = 22, 6
	x := box.Left
	for i, line := range lines {
		lineStyle(line, i).WriteToRenderer(r)
		r.MoveTo(x, box.Top-13)
		r.LineTo(x+dash, box.Top-13)
		r.Stroke()
		gochart.Draw.Text(r, line.Name, x+dash+gap, box.Top-9, text)
		x += dash + gap + gochart.Draw.MeasureText(r, line.Name, text).Width() + 3*gap
	}
}

// labelWidth is how wide the labels of a panel's values are, in pixels.
func labelWidth(r gochart.Renderer, panel Panel) int {
	font, err := gochart.GetDefaultFont()
	if err != nil {
		return 0 // reported by write, before anything is drawn
	}
	width := 0
	for _, t := range valueTicks(panel.Unit, panel.highest()) {
		style := gochart.Style{Font: font, FontSize: gochart.DefaultAxisFontSize}
		width = max(width, gochart.Draw.MeasureText(r, t.label, style).Width())
	}
	return width
}

func libraryTicks(ticks []tick) []gochart.Tick {
	list := make([]gochart.Tick, len(ticks))
	for i, t := range ticks {
		list[i] = gochart.Tick{Value: t.value, Label: t.label}
	}
	return list
}

func ink() drawing.Color { return drawing.ColorFromHex("333333") }

func axisStyle() gochart.Style {
	return gochart.Style{StrokeColor: drawing.ColorFromHex("888888"), FontColor: ink()}
}

func gridStyle() gochart.Style {
	return gochart.Style{StrokeColor: drawing.ColorFromHex("e4e4e4"), StrokeWidth: 1}
}

// lineStyle gives the i-th line of a panel its colour, out of a palette that colour-blind people can tell apart
// (Okabe and Ito).
func lineStyle(line Line, i int) gochart.Style {
	colours := [...]string{"0072b2", "d55e00", "009e73", "cc79a7", "e69f00", "56b4e9", "000000"}
	style := gochart.Style{StrokeColor: drawing.ColorFromHex(colours[i%len(colours)]), StrokeWidth: 1.5}
	if line.Main {
		style.StrokeWidth = 2
	}
	if line.Limit {
		style.StrokeDashArray = []float64{6, 4}
		style.StrokeColor = drawing.ColorFromHex("c00000")
	}
	return style
}
