// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page_test

import (
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/page/pagetest"
	"github.com/tachograph/tacho/internal/agent/page"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestQuestions asks the page what people ask: the first screen of a small desk answers, before anything is scrolled or
// unfolded. The CLI has such a table for runs, and for what a page is not about.
func TestQuestions(t *testing.T) {
	stage := pagetest.Stage(time.Now)
	testkit.Must(t, stage.WriteLogs(t.TempDir()))
	server := httptest.NewServer(page.New(stage, page.Options{}).Handler(true))
	defer server.Close()
	api, redis := "/alloc/"+pagetest.ID(1)+"/api", "/alloc/"+pagetest.ID(2)+"/redis"
	extract, fit := "/alloc/"+pagetest.ID(3)+"/extract", "/alloc/"+pagetest.ID(9)+"/fit"
	shown := map[string]string{}
	tab := startBrowser(t).open(t)
	defer tab.visit(t, "about:blank") // ends the stream, for which the server would wait
	tab.window(t, 1280, 800, "light")
	for _, path := range []string{"/", api, redis, extract, fit} {
		tab.visit(t, server.URL+path)
		shown[path] = evaluate[string](t, tab, `(() => {
			const walk = document.createTreeWalker(document.getElementById("main"), NodeFilter.SHOW_TEXT), texts = [];
			while (walk.nextNode()) {
				const range = document.createRange();
				range.selectNodeContents(walk.currentNode);
				const box = range.getBoundingClientRect();
				const text = walk.currentNode.textContent.trim().replace(/\s+/g, " ");
				if (text && box.height && box.bottom <= innerHeight && walk.currentNode.parentElement.checkVisibility() && !walk.currentNode.parentElement.closest(".hear")) texts.push(text);
			}
			return texts.join(" ");
		})()`)
	}
	for _, q := range []struct{ question, path, line string }{
		{"did it run out of memory?", "/", `oom-killed 4m ago`},
		{"did it run out of memory?", redis, `Last end, 4m ago oom-killed Killed: out of memory \(limit 256 MiB, peak 256 MiB\)`},
		{"did it run out of memory?", fit, `Killed: out of memory \(limit 1 GiB, peak 1 GiB\)`},
		{"which process?", redis, `1 OOM kill at the task's own limit: redis-server\[4712\], 236 MiB resident`},
		{"which process?", fit, `python3\[4712\]`},
		{"what limit should it have?", redis, `Raise the task's memory limit \(try \d+ MiB\)`},
		{"what limit should it have?", fit, `Raise the task's memory limit \(try \d+ MiB\)`},
		{"who used the CPU?", "/", `api .* [01]\.\d\d`},
		{"who used the CPU?", extract, `CPU 0\.\d\d cores .* in all, [\d.]+ % by \w+`},
		{"what did it wait for?", "/", `memory-thrashing [\d.]+ %`},
		{"what did it wait for?", extract, `Pressure io-bound cpu [\d.]+ % memory [\d.]+ % io [\d.]+ %`},
		{"did it write to disk, and how much?", extract, `Written .* written [\d.]+ GiB since the start`},
		{"was it throttled?", api, `throttled by its CPU quota for \S+s, summed over CPUs`},
		{"why did it end, and when?", redis, `Last end, 4m ago`},
		{"why did it end, and when?", fit, `oom-killed .* 11m ago`},
		{"which of my tasks is the problem now?", "/", `Problems \d+ .*etl\[1\] .* failed \d+ s ago .*redis .*oom-killed 4m ago`},
		{"is the figure exact?", "/", `≥ [\d.]+ MiB`},
	} {
		if !regexp.MustCompile(q.line).MatchString(shown[q.path]) {
			t.Errorf("%s %s does not say (%s):\n%s", q.question, q.path, q.line, shown[q.path])
		}
	}
}
