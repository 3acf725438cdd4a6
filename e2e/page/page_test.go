// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package page_test looks at the agent's page with a real browser.
package page_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/page/pagetest"
	"github.com/tachograph/tacho/internal/agent/page"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

var update = flag.Bool("update", false, "write the pictures in docs/images")

// serve serves a page over an agent on loopback.
func serve(t *testing.T, a page.Agent, o page.Options) string {
	t.Helper()
	p := page.New(a, o)
	server := httptest.NewServer(p.Handler(false))
	t.Cleanup(func() {
		p.Close()
		server.Close()
	})
	return server.URL
}

func TestOverview(t *testing.T) {
	stage := pagetest.Stage(time.Now)
	site := serve(t, stage, page.Options{Interval: 200 * time.Millisecond})
	tab := startBrowser(t).open(t)
	tab.visit(t, site+"/")

	t.Run("a value changes by itself", func(t *testing.T) {
		cell := `document.querySelector('[data-live$="api cpu"]').innerHTML`
		before := evaluate[string](t, tab, cell)
		tab.waitFor(t, cell+" !== "+quote(before))
	})
	t.Run("an ended task has its verdict", func(t *testing.T) {
		tab.waitFor(t, `document.querySelector('table.ended').innerText.includes('Killed: out of memory')`)
		tab.waitFor(t, `document.querySelector('table.ended').innerText.includes('oom-killed')`)
	})
	t.Run("a task that ends moves, and the focus stays", func(t *testing.T) {
		evaluate[any](t, tab, `document.querySelector('a.task[href*="extract"]').focus()`)
		x := &pagetest.Actor{
			ID: pagetest.ID(50), Job: "late", Group: "g", Name: "arrives", Started: time.Now().Add(-time.Minute),
			Cores: 0.5, Memory: 1 << 24,
		}
		stage.Add(x)
		tab.waitFor(t, `document.querySelector('a.task[href*="arrives"]') !== null`)
		tab.waitFor(t, `document.activeElement.matches('a.task[href*="extract"]')`)
		page := evaluate[string](t, tab, `document.querySelector('table.ended').innerText`)
		if strings.Contains(page, "arrives") {
			t.Error("a task that runs stands among the ended ones")
		}
	})
	t.Run("publishing off is said", func(t *testing.T) {
		stage.SetPublishing("publish_allocation_metrics is false")
		defer stage.SetPublishing("")
		tab.waitFor(t, `document.getElementById('notice')?.innerText.includes('publish_allocation_metrics is false')`)
		tab.waitFor(t, `document.querySelector('[data-live$="api cpu"]').innerText.includes('–')`)
	})
	t.Run("and on again", func(t *testing.T) {
		tab.waitFor(t, `document.getElementById('notice') === null`)
	})
}

func TestTask(t *testing.T) {
	stage := pagetest.Stage(time.Now)
	site := serve(t, stage, page.Options{Interval: 200 * time.Millisecond})
	tab := startBrowser(t).open(t)
	tab.visit(t, site+"/alloc/"+pagetest.ID(3)+"/extract")

	t.Run("a gap is a gap", func(t *testing.T) {
		tab.waitFor(t, `document.querySelectorAll('[data-live="chart-cpu"] .gap').length === 1`)
		tab.waitFor(t, `document.querySelector('.happened').innerText.includes('the agent was not running')`)
		// The line has two parts.
		tab.waitFor(t, `document.querySelector('[data-live="chart-cpu"] .line').getAttribute('d').match(/M/g).length === 2`)
	})
	t.Run("the charts move", func(t *testing.T) {
		value := `document.querySelector('[data-live="chart-cpu"] svg').dataset.chart`
		before := evaluate[string](t, tab, value)
		tab.waitFor(t, value+" !== "+quote(before))
	})
	t.Run("the process table adds up", func(t *testing.T) {
		tab.waitFor(t, `document.querySelector('.processes tfoot').innerText.includes('unattributed')`)
		tab.waitFor(t, `document.body.innerText.includes('add up to the total')`)
	})
	t.Run("arrow keys read a chart out", func(t *testing.T) {
		evaluate[any](t, tab, `document.querySelector('.chart').focus()`)
		tab.key(t, "ArrowLeft", 37)
		tab.waitFor(t, `/\d\d:\d\d:\d\d\s+used \d/.test(document.querySelector('.chart .read-out').textContent)`)
		const readOut = `document.querySelector('.chart .read-out').textContent`
		first := evaluate[string](t, tab, readOut)
		tab.key(t, "Home", 36)
		if first == evaluate[string](t, tab, readOut) {
			t.Errorf("the chart reads %q at both ends", first)
		}
		tab.key(t, "Escape", 27)
		tab.waitFor(t, `document.querySelector('.cross').hidden`)
	})
	t.Run("an OOM kill is marked", func(t *testing.T) {
		tab.visit(t, site+"/alloc/"+pagetest.ID(2)+"/redis")
		tab.waitFor(t, `document.querySelector('[data-live="chart-memory"] .event.oom') !== null`)
		tab.waitFor(t, `document.querySelector('[data-live="chart-memory"] .rule.limit') !== null`)
	})
	t.Run("the end of an ended task is told", func(t *testing.T) {
		tab.visit(t, site+"/alloc/"+pagetest.ID(9)+"/fit")
		tab.waitFor(t, `document.querySelector('.ending').innerText.includes('1 OOM kill')`)
		tab.waitFor(t, `document.querySelector('.ending').innerText.includes('Killed: out of memory')`)
		tab.waitFor(t, `!document.documentElement.innerHTML.includes('--epochs')`)
	})
}

// TestReadOutFormat holds that the script of charts writes values as the server does.
func TestReadOutFormat(t *testing.T) {
	site := serve(t, pagetest.Stage(time.Now), page.Options{})
	tab := startBrowser(t).open(t)
	tab.visit(t, site+"/")
	for _, unit := range []procstats.Unit{procstats.Cores, procstats.Bytes, procstats.BytesPerSecond, procstats.Share} {
		want := []string{strings.TrimSuffix(unit.Text(0), " cores"), "–"}
		values := "null"
		for value := 1.7e-5; value < 1e13; value *= 3.7 {
			want = append(want, strings.TrimSuffix(unit.Text(value), " cores"))
			values += fmt.Sprintf(",%g", value)
		}
		got := evaluate[[]string](t, tab,
			fmt.Sprintf("[0,%s].map((v) => v === null ? '–' : format(%s, v))", values, quote(unit.String())))
		testkit.Diff(t, fmt.Sprintf("%s: the script writes other values than the server", unit), want, got)
	}
}

func TestKeyboard(t *testing.T) {
	site := serve(t, pagetest.Stage(time.Now), page.Options{})
	tab := startBrowser(t).open(t)
	tab.visit(t, site+"/")
	tab.key(t, "Tab", 9)
	tab.waitFor(t, `document.activeElement.classList.contains('skip')`)
	tab.waitFor(t, `getComputedStyle(document.activeElement).outlineStyle !== 'none'`)
	for range 40 {
		tab.key(t, "Tab", 9)
		task := evaluate[bool](t, tab, `document.activeElement.classList.contains('task')`)
		if task {
			tab.key(t, "Enter", 13)
			tab.waitFor(t, `location.pathname.startsWith('/alloc/')`)
			tab.waitFor(t, `document.querySelector('h1') !== null`)
			return
		}
	}
	t.Error("no task is reached by the tab key")
}

// TestWithoutScripts holds that a page says the same without scripts.
func TestWithoutScripts(t *testing.T) {
	site := serve(t, pagetest.Stage(time.Now), page.Options{})
	tab := startBrowser(t).open(t)
	tab.call(t, "Emulation.setScriptExecutionDisabled", object{"value": true})
	address := site + "/alloc/" + pagetest.ID(1) + "/api"
	tab.call(t, "Page.navigate", object{"url": address})
	// Nothing in the page can wait here, so it is asked over and over.
	whole := false
	for end := time.Now().Add(patience); !whole && time.Now().Before(end); {
		whole = evaluate[bool](t, tab, "location.href === "+quote(address)+" && document.readyState === 'complete'")
	}
	lines := evaluate[int](t, tab, `document.querySelectorAll('.chart svg .line').length`)
	if lines < 6 {
		t.Errorf("the charts have %d lines", lines)
	}
	figures := evaluate[string](t, tab, `document.querySelector('.figures').innerText`)
	if !strings.Contains(figures, "MiB") {
		t.Errorf("the numbers are %q", figures)
	}
}

// TestConnectionLost holds that a page says when its numbers are old, and goes on by itself.
func TestConnectionLost(t *testing.T) {
	stage := pagetest.Stage(time.Now)
	p := page.New(stage, page.Options{Interval: 100 * time.Millisecond})
	handler := make(chan http.Handler, 1)
	handler <- p.Handler(false)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := <-handler
		handler <- now
		now.ServeHTTP(w, r)
	}))
	defer server.Close()
	b := startBrowser(t)
	tab := b.open(t)
	tab.visit(t, server.URL+"/")
	tab.waitFor(t, `source?.readyState === EventSource.OPEN`)
	evaluate[bool](t, tab, "document.getElementById('main').dataset.old = 'yes'; true")
	<-handler
	handler <- http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "down", http.StatusServiceUnavailable)
	})
	p.Close()
	const age = `/read .* ago/.test(document.getElementById('main').innerText)`
	if !evaluate[bool](t, tab, age) {
		t.Error("the page does not say how old its numbers are")
	}
	tab.waitFor(t, `document.getElementById('connection').textContent.includes('lost')`)
	if evaluate[bool](t, tab, age) {
		t.Error("the page says how old its numbers were when the connection was lost, as if they were so now")
	}
	again := page.New(stage, page.Options{Interval: 100 * time.Millisecond})
	defer again.Close()
	<-handler
	handler <- again.Handler(false)
	tab.waitFor(t, `document.getElementById('connection').textContent === '' && source.readyState === EventSource.OPEN`)
	tab.waitFor(t, `!document.getElementById('main').dataset.old`) // what the page has is what the new stream knows
	// The browser writes refused connections into its console: they are what this test is about.
	tab.mu.Lock()
	tab.problems = nil
	tab.mu.Unlock()
}

// TestFocusInALog has the focus in the output of a task, which goes on, and elsewhere in a part that changes, which
// waits.
func TestFocusInALog(t *testing.T) {
	site := serve(t, pagetest.Stage(time.Now), page.Options{})
	tab := startBrowser(t).open(t)
	tab.visit(t, site+"/alloc/"+pagetest.ID(1)+"/api")
	const part = `
		const part = document.createElement("div");
		part.dataset.live = "probe";
		document.getElementById("main").append(part);
		known = null;
		const text = () => part.textContent.trim();`
	got := evaluate[[]string](t, tab, `(() => {`+part+`
		part.innerHTML = "<pre tabindex='0'>one</pre>";
		part.firstChild.focus();
		put({ probe: "<pre tabindex='0'>one two</pre>" });
		return [text(), String(part.contains(document.activeElement))];
	})()`)
	if want := []string{"one two", "true"}; !slices.Equal(got, want) {
		t.Errorf("a log with the focus: %q, want %q", got, want)
	}
	got = evaluate[[]string](t, tab, `(async () => {`+part+`
		part.innerHTML = "<a href='#'>one</a>";
		part.firstChild.focus();
		put({ probe: "<a href='#'>two</a>" });
		const before = text();
		document.activeElement.blur();
		await new Promise((done) => setTimeout(done, 50));
		return [before, text()];
	})()`)
	if want := []string{"one", "two"}; !slices.Equal(got, want) {
		t.Errorf("a link with the focus: %q, want %q", got, want)
	}
}

// TestFits holds that no page is wider than its window, from a telephone to a wall.
func TestFits(t *testing.T) {
	site := serve(t, pagetest.Stage(time.Now), page.Options{})
	tab := startBrowser(t).open(t)
	for _, width := range []int{360, 768, 1280, 1920, 3840} {
		for _, path := range []string{
			"/", "/alloc/" + pagetest.ID(1) + "/api", "/alloc/" + pagetest.ID(9) + "/fit",
			"/measurements",
		} {
			tab.window(t, width, 900, "light")
			tab.visit(t, site+path)
			wide := evaluate[int](t, tab, "document.documentElement.scrollWidth")
			if wide > width {
				t.Errorf("%s is %d wide in a window of %d", path, wide, width)
			}
		}
	}
}

// TestContrast holds that text can be read: WCAG 2.2, 1.4.3, in both schemes.
func TestContrast(t *testing.T) {
	site := serve(t, pagetest.Stage(time.Now), page.Options{})
	tab := startBrowser(t).open(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, path := range []string{"/", "/alloc/" + pagetest.ID(1) + "/api", "/alloc/" + pagetest.ID(9) + "/fit"} {
			tab.window(t, 1280, 900, scheme)
			tab.visit(t, site+path)
			for _, text := range evaluate[[]string](t, tab, lowContrast) {
				t.Errorf("%s, %s: %s", path, scheme, text)
			}
		}
	}
}

// lowContrast lists texts of less contrast than 4.5 to what is behind them.
const lowContrast = `(() => {
	const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
	const parse = (c) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); const ` +
	`d = canvas.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
	const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + ` +
	`0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); ` +
	`if (c[3] > 0.9) return c.slice(0, 3); } return [255, 255, 255]; };
	const found = new Set();
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement;
		if (!walk.currentNode.textContent.trim() || e.closest('.hear, .skip, svg') || !e.getClientRects().length) continue;
		const a = light(parse(getComputedStyle(e).color).slice(0, 3)), b = light(behind(e));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) found.add(e.className + ' "' + walk.currentNode.textContent.trim().slice(0, 30) + '" ' + ` +
	`ratio.toFixed(2));
	}
	return [...found];
})()`

// TestPictures takes the pictures of the docs with -update, and holds that they can be taken.
func TestPictures(t *testing.T) {
	stage := pagetest.Stage(time.Now)
	testkit.Must(t, stage.WriteLogs(t.TempDir()))
	others := serve(t, stage, page.Options{})
	trusted := httptest.NewServer(page.New(stage, page.Options{}).Handler(true))
	defer trusted.Close()
	tab := startBrowser(t).open(t)
	defer tab.visit(t, "about:blank") // ends the stream, for which the server would wait
	pictures := []struct {
		name, path, scheme string
		width, height      int
		off, trusted       bool
	}{
		{name: "page-light", path: "/", scheme: "light", width: 1440, height: 1400},
		{name: "page-dark", path: "/", scheme: "dark", width: 1440, height: 1400},
		{name: "page-narrow", path: "/", scheme: "light", width: 360, height: 1500},
		{name: "page-4k", path: "/", scheme: "light", width: 3840, height: 2160},
		{name: "page-off", path: "/", scheme: "light", width: 1440, height: 1400, off: true},
		{name: "task-light", path: "/alloc/" + pagetest.ID(3) + "/extract", scheme: "light", width: 1440, height: 2000},
		{name: "task-dark", path: "/alloc/" + pagetest.ID(2) + "/redis", scheme: "dark", width: 1440, height: 2000},
		{name: "task-narrow", path: "/alloc/" + pagetest.ID(2) + "/redis", scheme: "dark", width: 360, height: 2600},
		{
			name: "task-ended", path: "/alloc/" + pagetest.ID(9) + "/fit", scheme: "light", width: 1440, height: 2000,
			trusted: true,
		},
	}
	for _, picture := range pictures {
		stage.SetPublishing("")
		if picture.off {
			stage.SetPublishing("publish_allocation_metrics is false in the agent's configuration")
		}
		site := others
		if picture.trusted {
			site = trusted.URL
		}
		tab.window(t, picture.width, 900, picture.scheme)
		tab.visit(t, site+picture.path)
		png := tab.screenshot(t, picture.height)
		if len(png) < 10_000 {
			t.Errorf("%s has only %d bytes", picture.name, len(png))
		}
		if *update {
			path := filepath.Join("..", "..", "docs", "images", picture.name+".png")
			testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			testkit.Must(t, os.WriteFile(path, png, 0o644))
		}
	}
}
