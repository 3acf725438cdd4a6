// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page_test

import (
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/tachograph/tacho/e2e/page/pagetest"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/page"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

var update = flag.Bool("update", false, "write the golden files")

// moment is the time on the stage.
func moment() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func stage(t testing.TB) *pagetest.Agent {
	t.Helper()
	a := pagetest.Stage(moment)
	must(t, a.WriteLogs(t.TempDir()))
	return a
}

func serve(a page.Agent, trusted bool) http.Handler {
	return page.New(a, page.Options{Token: func() string { return "t0ken" }, Now: moment}).Handler(trusted)
}

// get returns a page.
func get(t testing.TB, h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func task(n int, name string) string { return "/alloc/" + pagetest.ID(n) + "/" + name }

// paths are the pages of the stage.
func paths() map[string]string {
	return map[string]string{
		"overview": "/", "busy": task(1, "api"), "thrashing": task(2, "redis"), "gap": task(3, "extract"),
		"bare":    task(4, "rsync"),
		"waiting": task(6, "load"), "completed": task(7, "render"), "failed": task(8, "schema"), "killed": task(9, "fit"),
		"machine": "/machine", "measurements": "/measurements", "missing": "/alloc/ffff/x",
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	for name, path := range paths() {
		if name == "measurements" {
			continue // the table has goldens of its own
		}
		t.Run(name, func(t *testing.T) { golden(t, name, get(t, serve(stage(t), false), path).Body.String()) })
	}
	t.Run("off", func(t *testing.T) {
		a := stage(t)
		a.SetPublishing("publish_allocation_metrics is false")
		golden(t, "off", get(t, serve(a, false), "/").Body.String())
	})
	t.Run("trusted", func(t *testing.T) {
		golden(t, "trusted", get(t, serve(stage(t), true), task(9, "fit")).Body.String())
	})
}

// golden compares what people read of a page.
func golden(t *testing.T, name, content string) {
	t.Helper()
	got := textOf(t, content)
	path := filepath.Join("testdata", name+".txt")
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want := testkit.Value(os.ReadFile(path))(t)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the page has changed; -update takes it over (-want +got):\n%s", diff)
	}
}

// textOf is a page as those hear it who do not see it: its texts and labels, a line for each block.
func textOf(t *testing.T, content string) string {
	t.Helper()
	root := testkit.Value(html.Parse(strings.NewReader(content)))(t)
	var b strings.Builder
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		switch n.Type {
		case html.TextNode:
			b.WriteString(n.Data)
		case html.ElementNode:
			label := ""
			for _, a := range n.Attr {
				switch {
				case a.Key == "aria-hidden":
					return
				case a.Key == "aria-label" || (a.Key == "title" && n.Data != "code"):
					label += "{" + a.Val + "} "
				}
			}
			switch n.Data {
			case "head", "defs":
				return
			case "span", "b", "small", "a", "code", "i", "time":
			case "td", "th":
				b.WriteString(" | ")
			default:
				b.WriteString("\n")
			}
			b.WriteString(label)
			for c := n.FirstChild; c != nil; c = c.NextSibling {
				walk(c)
			}
			return
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(root)
	var lines []string
	for line := range strings.Lines(b.String()) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestWellFormed holds that what is written is what a parser makes of it: nothing left open, closed twice or moved.
func TestWellFormed(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{false, true} {
		for name, path := range paths() {
			checkWellFormed(t, name, get(t, serve(stage(t), trusted), path).Body.String())
		}
	}
}

func checkWellFormed(t *testing.T, name, content string) {
	t.Helper()
	void := map[string]bool{"meta": true, "link": true, "img": true, "input": true, "br": true}
	z := html.NewTokenizer(strings.NewReader(content))
	var open []string
	ids := map[string]bool{}
	for {
		switch z.Next() {
		case html.ErrorToken:
			if len(open) > 0 || !errors.Is(z.Err(), io.EOF) {
				t.Errorf("%s: left open: %v (%v)", name, open, z.Err())
			}
			return
		case html.StartTagToken:
			token := z.Token()
			for _, a := range token.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
					t.Errorf("%s: <%s %s>: the content security policy forbids it", name, token.Data, a.Key)
				}
				if a.Key == "id" && ids[a.Val] {
					t.Errorf("%s: id %q twice", name, a.Val)
				}
				ids[a.Val] = ids[a.Val] || a.Key == "id"
			}
			// rect and path may close themselves, or not; the parser of HTML does the rest by nesting.
			if !void[token.Data] {
				open = append(open, token.Data)
			}
		case html.EndTagToken:
			token := z.Token()
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("%s: </%s> closes %v", name, token.Data, open)
			}
			open = open[:len(open)-1]
		case html.SelfClosingTagToken, html.TextToken, html.CommentToken, html.DoctypeToken:
		}
	}
}

// TestLinks holds that every link of a page leads somewhere.
func TestLinks(t *testing.T) {
	t.Parallel()
	h := serve(stage(t), true)
	table := get(t, h, "/measurements").Body.String()
	link := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	seen := map[string]bool{}
	for name, path := range paths() {
		for _, found := range link.FindAllStringSubmatch(get(t, h, path).Body.String(), -1) {
			target := html.UnescapeString(found[1])
			if seen[target] {
				continue
			}
			seen[target] = true
			if id, ok := strings.CutPrefix(target, "/measurements#"); ok {
				if !strings.Contains(table, `id="`+id+`"`) {
					t.Errorf("%s: there is no measurement %q", name, id)
				}
				continue
			}
			if strings.HasPrefix(target, "#") {
				continue
			}
			if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
				t.Errorf("%s: %q leads to another host", name, target)
				continue
			}
			if w := get(t, h, target); w.Code >= 400 {
				t.Errorf("%s: %s: %d", name, target, w.Code)
			}
		}
	}
	if len(seen) < 30 {
		t.Errorf("only %d links were found", len(seen))
	}
}

// TestHostile holds that no name or text of a task becomes part of a page's markup.
func TestHostile(t *testing.T) {
	t.Parallel()
	const bad = `"><script>alert(1)</script><img src=x onerror=alert(2)>'&javascript:` + "\x00\x1b[31m\u202e"
	a := pagetest.New(moment)
	x := &pagetest.Actor{
		ID: pagetest.ID(1), Job: bad, Group: bad, Name: bad, Started: moment().Add(-time.Hour), Cores: 1,
		Memory: 1 << 20, Limit: 1 << 30,
		Processes: []string{bad, bad}, Events: []allocation.Event{{Type: hook.EventType(bad), Time: moment(), Message: bad}},
		Attributes: map[string]string{bad: bad, "limit." + bad: bad},
	}
	end := &pagetest.Actor{
		ID: pagetest.ID(2), Job: bad, Group: bad, Name: bad, Started: moment().Add(-time.Hour), Cores: 1, Memory: 1 << 20,
		Ended: &hook.Exit{Code: 1, At: moment().Add(-time.Minute), Lost: bad}, Failed: true,
	}
	value := 1.0
	end.Record = &record.Record{
		Command:      []string{bad},
		Origin:       record.Origin{Dir: bad},
		About:        record.About{Labels: map[string]string{bad: bad}, Notes: []string{bad}},
		Measurements: map[string]any{bad: bad},
		Diagnosis: record.Diagnosis{
			Verdict: record.Verdict(bad), Summary: bad, Operator: bad, Stall: record.Stall(bad),
			Evidence: map[string]any{bad: bad, "list": []any{bad}},
			OOM:      record.OOM{Kills: new(int64), Victim: &record.Victim{Command: bad, Source: bad}},
		},
		Headline: map[string]record.HeadlineValue{"cpu_seconds_total": {
			Value: &value, Source: bad,
			Guarantee: procstats.Guarantee(bad),
		}},
		Absent: map[string]string{bad: bad},
		Surroundings: record.Surroundings{Limits: []record.Limit{{
			Name: bad, RequestedText: bad, EffectiveText: bad,
			Where: bad,
		}}, Peak: &record.Peak{At: moment(), Measurement: bad, Largest: []record.ProcessRow{{Command: bad}}}},
		Processes: &record.Processes{Rows: []record.ProcessRow{{Command: bad}}},
	}
	*end.Record.Diagnosis.OOM.Kills = 1
	// The name of a task that has logs is that of a file.
	talker := &pagetest.Actor{
		ID: pagetest.ID(3), Job: bad, Group: bad, Name: "talker",
		Started: moment().Add(-time.Hour), Output: bad,
	}
	a.Add(talker)
	must(t, a.WriteLogs(t.TempDir()))
	a.Add(x, end)
	if content := get(t, serve(a, true), task(3, "talker")).Body.String(); !strings.Contains(content,
		"alert(1)&lt;/script&gt;") {
		t.Error("the log is not shown")
	}
	for _, reason := range []string{"", bad} {
		a.SetPublishing(reason)
		h := serve(a, true)
		for _, path := range []string{"/", "/?q=%22%3E%3Cscript%3E", "/?sort=%22%3E%3Cscript%3E", "/alloc/" +
			pagetest.ID(1), "/alloc/" + pagetest.ID(2), "/alloc/" + pagetest.ID(3)} {
			w := get(t, h, path)
			if location := w.Header().Get("Location"); location != "" {
				w = get(t, h, location)
				testkit.Equal(t, w.Code, http.StatusOK, "%s", location)
			}
			content := w.Body.String()
			checkWellFormed(t, path, content)
			checkHarmless(t, path, content)
		}
	}
}

func checkHarmless(t *testing.T, path, content string) {
	t.Helper()
	root := testkit.Value(html.Parse(strings.NewReader(content)))(t)
	for n := range root.Descendants() {
		if n.Type == html.TextNode && strings.ContainsAny(n.Data, "\x00\x1b\u202e") {
			t.Errorf("%s: %q is shown as it is", path, n.Data)
		}
		if n.Type != html.ElementNode {
			continue
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"):
				t.Errorf("%s: <%s %s=%q>", path, n.Data, a.Key, a.Val)
			case (a.Key == "src" || a.Key == "href") && !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#"):
				t.Errorf("%s: <%s %s=%q>", path, n.Data, a.Key, a.Val)
			}
		}
		if n.Data == "script" && (n.FirstChild != nil || !strings.HasPrefix(attribute(n, "src"), "/page/assets/page.js")) {
			t.Errorf("%s: a script that is not ours", path)
		}
	}
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// TestRedacted holds that no page shows a command line to untrusted readers, not even one of a final record; streams
// have what the pages have.
func TestRedacted(t *testing.T) {
	t.Parallel()
	secrets := []string{
		pagetest.Secret, "--epochs", "--rank", "/srv/", "cgroup/tacho", "request served", "started process",
		"last_sample_age_seconds",
	}
	p := page.New(stage(t), page.Options{Token: func() string { return "t0ken" }, Now: moment})
	shown := ""
	for name, path := range paths() {
		content := get(t, p.Handler(false), path, "Cookie", "tacho_session=t0ken").Body.String()
		shown += get(t, p.Handler(true), path).Body.String()
		for _, secret := range secrets {
			if strings.Contains(content, secret) {
				t.Errorf("%s: %q is shown", name, secret)
			}
		}
	}
	for _, secret := range secrets {
		if !strings.Contains(shown, secret) {
			t.Errorf("%q is not shown to trusted readers", secret)
		}
	}
	for _, ended := range []string{task(7, "render"), task(8, "schema"), task(9, "fit")} {
		if content := get(t, p.Handler(true), ended).Body.String(); !strings.Contains(content, pagetest.Secret) {
			t.Errorf("%s: trusted readers do not see the command lines", ended)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	w := get(t, serve(stage(t), false), "/")
	policy := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'",
		"frame-ancestors 'none'",
	} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %s", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("the policy %q has holes", policy)
	}
	if w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Error("browsers may guess types")
	}
}

func TestShortID(t *testing.T) {
	t.Parallel()
	w := get(t, serve(stage(t), false), "/alloc/"+pagetest.ID(1)[:8])
	if to := task(1, "api"); w.Code != http.StatusFound || w.Header().Get("Location") != to {
		t.Errorf("it leads to %q (%d), want %q", w.Header().Get("Location"), w.Code, to)
	}
}

// must ends a test if its preparation failed.
var must = testkit.Must
