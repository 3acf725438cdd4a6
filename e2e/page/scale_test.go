// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/page/pagetest"
	"github.com/tachograph/tacho/internal/agent/page"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestHeight holds that a page of 200 tasks is a few screens long, on a desk and on a telephone.
func TestHeight(t *testing.T) {
	site := serve(t, pagetest.Crowd(time.Now, 200), page.Options{})
	tab := startBrowser(t).open(t)
	for _, window := range []struct{ width, height, screens int }{{1280, 800, 3}, {360, 640, 12}, {2560, 1440, 3}} {
		for _, query := range []string{"", "?sort=cpu", "?sort=name&page=3"} {
			tab.window(t, window.width, window.height, "light")
			tab.visit(t, site+"/"+query)
			high := evaluate[int](t, tab, "document.documentElement.scrollHeight")
			t.Logf("%d wide, /%s: %d px", window.width, query, high)
			if high > window.screens*window.height {
				t.Errorf("%d wide, /%s: %d px are more than %d screens", window.width, query, high, window.screens)
			}
		}
	}
}

// TestTaskOrder holds that the page of a task answers in the order that people ask: how it is and how it last ended, what
// it uses now, its history, its output, and then the details; and that on a small desk the first screen has the charts.
func TestTaskOrder(t *testing.T) {
	stage := pagetest.Stage(time.Now)
	testkit.Must(t, stage.WriteLogs(t.TempDir()))
	server := httptest.NewServer(page.New(stage, page.Options{}).Handler(true))
	defer server.Close()
	tab := startBrowser(t).open(t)
	defer tab.visit(t, "about:blank") // ends the stream, for which the server would wait
	for _, window := range []struct{ width, height int }{{1280, 800}, {360, 640}, {2560, 1440}} {
		for _, scheme := range []string{"light", "dark"} {
			tab.window(t, window.width, window.height, scheme)
			tab.visit(t, server.URL+"/alloc/"+pagetest.ID(2)+"/redis")
			const places = `["h1", ".ending", ".figures", ".charts", "#output-title", "#processes-title", "#limits-title"]
				.map((s) => document.querySelector(s).getBoundingClientRect())
				.map((b) => [Math.round(b.top), Math.round(b.bottom)])`
			found := evaluate[[][2]int](t, tab, places)
			t.Logf("%d x %d: %v", window.width, window.height, found)
			for i := 1; i < len(found); i++ {
				if found[i][0] < found[i-1][1]-1 {
					t.Errorf("%d wide, %s: part %d begins at %d, before the end of the one above at %d", window.width, scheme, i,
						found[i][0], found[i-1][1])
				}
			}
			const charts = 3
			if end := found[charts][1]; window.width >= 1280 && end > window.height {
				t.Errorf("%d wide: the charts end at %d px, below the first screen", window.width, end)
			}
			if card := found[1][1] - found[1][0]; window.width >= 1280 && float64(card) > 0.12*float64(window.height) {
				t.Errorf("%d wide: the card of the last end has %d px", window.width, card)
			}
			folded := evaluate[bool](t, tab, `document.querySelector(".ending details").open`)
			if folded {
				t.Error("the evidence is not folded")
			}
		}
	}
}

// TestNothingIsCut holds that a telephone shows all of every text, without scrolling to the side.
func TestNothingIsCut(t *testing.T) {
	stage := pagetest.Stage(time.Now)
	testkit.Must(t, stage.WriteLogs(t.TempDir()))
	site := serve(t, stage, page.Options{})
	crowd := serve(t, pagetest.Crowd(time.Now, 200), page.Options{})
	tab := startBrowser(t).open(t)
	for _, address := range []string{
		site + "/", crowd + "/", site + "/alloc/" + pagetest.ID(1) + "/api", site + "/alloc/" + pagetest.ID(2) + "/redis",
		site + "/alloc/" + pagetest.ID(9) + "/fit",
	} {
		tab.window(t, 360, 640, "light")
		tab.visit(t, address)
		const cut = `(() => {
			document.querySelectorAll("details").forEach((d) => { d.open = true; });
			return [...document.querySelectorAll("main *")]
				.filter((e) => e.getClientRects().length && !e.closest(".hear, svg, thead, pre"))
				.filter((e) => e.getBoundingClientRect().right > 361 ||
					getComputedStyle(e).overflowX !== "visible" && e.scrollWidth > e.clientWidth + 1)
				.map((e) => e.tagName + "." + e.className + ": " + e.textContent.trim().slice(0, 40));
		})()`
		for _, text := range evaluate[[]string](t, tab, cut) {
			t.Errorf("%s: %s", address, text)
		}
	}
}

// TestTraffic holds what looking at 200 tasks costs, of which one in ten does something, also if they change places.
func TestTraffic(t *testing.T) {
	for _, query := range []string{"", "?sort=cpu"} {
		t.Run("/"+query, func(t *testing.T) { traffic(t, query) })
	}
}

func traffic(t *testing.T, query string) {
	t.Helper()
	site := serve(t, pagetest.Crowd(time.Now, 200), page.Options{})
	b := startBrowser(t)
	tab := b.open(t)
	tab.window(t, 1280, 800, "light")
	tab.visit(t, site+"/"+query)
	tab.waitFor(t, `source?.readyState === EventSource.OPEN`)
	loaded := tab.bytes()
	// The best of a few looks: other programs on the machine take caches away, and the first look has what loading
	// left.
	const looks, look, enough = 12, 4 * time.Second, 0.02
	least, most := math.Inf(1), 0.0
	for i := 0; i < looks && (i < looks/3 || least > enough); i++ {
		sent, busy, start := tab.bytes(), b.busy(t), time.Now()
		evaluate[any](t, tab, fmt.Sprintf("new Promise((done) => setTimeout(done, %d))", look.Milliseconds()))
		took := time.Since(start).Seconds()
		most, least = max(most, float64(tab.bytes()-sent)/took), min(least, (b.busy(t)-busy)/took)
	}
	t.Logf("%d bytes to load, then at most %.0f bytes/s and at least %.2f %% of a core", loaded, most, 100*least)
	if loaded > 100e3 {
		t.Errorf("%d bytes to load", loaded)
	}
	if most > 10e3 {
		t.Errorf("%.0f bytes/s", most)
	}
	if least > enough {
		t.Errorf("%.2f %% of a core", 100*least)
	}
}

// busy is the CPU time in seconds that the processes of the browser's pages have used.
func (b *browser) busy(t *testing.T) (seconds float64) {
	t.Helper()
	var r struct {
		ProcessInfo []struct {
			Type    string
			CPUTime float64
		}
	}
	unmarshal(t, b.call(t, "", "SystemInfo.getProcessInfo", object{}), &r)
	for _, p := range r.ProcessInfo {
		if p.Type == "renderer" {
			seconds += p.CPUTime
		}
	}
	if seconds == 0 {
		t.Fatal("the browser does not say what its pages use")
	}
	return seconds
}

// axeVersion is the release of axe-core, which checks pages by the rules of WCAG.
const axeVersion = "4.10.3"

// axe returns the script of axe-core from its npm package, or skips the test if there is none.
func axe(t *testing.T) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm, which fetches axe-core, is not installed")
	}
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), npm, "install", "--prefix", dir, "--no-save", "--ignore-scripts",
		"axe-core@"+axeVersion).CombinedOutput()
	if err != nil {
		t.Skipf("npm cannot fetch axe-core: %v\n%s", err, out)
	}
	script := testkit.Value(os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")))(t)
	return string(script)
}

// TestAccessible holds that axe-core finds nothing.
func TestAccessible(t *testing.T) {
	script := axe(t)
	stage := pagetest.Stage(time.Now)
	testkit.Must(t, stage.WriteLogs(t.TempDir()))
	site := serve(t, stage, page.Options{Token: func() string { return "t" }})
	crowd := serve(t, pagetest.Crowd(time.Now, 200), page.Options{})
	tab := startBrowser(t).open(t)
	for _, address := range []string{
		site + "/", site + "/?state=ended", crowd + "/", site + "/alloc/" + pagetest.ID(1) + "/api",
		site + "/alloc/" + pagetest.ID(2) + "/redis", site + "/alloc/" + pagetest.ID(9) + "/fit", site + "/measurements",
	} {
		for _, window := range []struct {
			width  int
			scheme string
			crowd  bool // of many tasks alone: the other pages have the same colours
		}{{360, "dark", false}, {1280, "light", false}, {2560, "dark", false}, {360, "light", true}, {1280, "dark", true}, {2560, "light", true}} {
			if window.crowd && address != crowd+"/" {
				continue
			}
			width, scheme := window.width, window.scheme
			tab.window(t, width, 900, scheme)
			tab.visit(t, address)
			if _, err := tab.tryEval(t, script+"; 0"); err != nil {
				t.Fatal(err)
			}
			const check = `axe.run().then((r) => r.violations.map((v) => ({id: v.id, at: v.nodes.slice(0, 3).map((n) => n.html)})))`
			for _, violation := range evaluate[[]json.RawMessage](t, tab, check) {
				t.Errorf("%s, %d wide, %s: %s", address, width, scheme, violation)
			}
		}
	}
}
