// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page_test

import (
	"encoding/json"
	"fmt"
	"math"
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
	for _, window := range []struct{ width, height, screens int }{{1280, 800, 3}, {360, 640, 12}} {
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

// TestTraffic holds what looking at 200 tasks costs, of which one in ten does something.
func TestTraffic(t *testing.T) {
	site := serve(t, pagetest.Crowd(time.Now, 200), page.Options{})
	b := startBrowser(t)
	tab := b.open(t)
	tab.window(t, 1280, 800, "light")
	tab.visit(t, site+"/")
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
		site + "/alloc/" + pagetest.ID(9) + "/fit", site + "/measurements",
	} {
		for width, scheme := range map[int]string{360: "dark", 1280: "light"} {
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
