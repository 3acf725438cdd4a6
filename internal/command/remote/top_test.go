// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// exampleTop has a busy task, an idle one near its limit, and one that nothing is known of.
func exampleTop() *topModel {
	m := &topModel{delay: 2 * time.Second, sort: "cpu"}
	m.update([]*topRow{
		{
			Alloc: "aaaaaaaa-1", Name: "web.app[0]", Job: "web", Task: "server", State: "running",
			usage: usage{
				Cores: new(1.5), Memory: new(float64(10 << 20)), Limit: new(float64(100 << 20)),
				Peak: new(float64(20 << 20)), Read: new(float64(1 << 20)),
				Written: new(0.0), CPUPressure: new(0.25), MemoryPressure: new(0.0), IOPressure: new(0.1), Processes: new(3.0),
			},
			past: []*float64{new(0.0), nil, new(0.75), new(1.5)},
		},
		{
			Alloc: "bbbbbbbb-1", Name: "db.data[0]", Job: "db", Task: "store", State: "running", Restarts: 2,
			usage: usage{Cores: new(0.01), Memory: new(float64(95 << 20)), Limit: new(float64(100 << 20)), Processes: new(9.0)},
		},
		{
			Alloc: "cccccccc-1", Name: "new.x[0]", Job: "new", Task: "main\x1b[2J", State: "pending",
			Reason: "publishing is off",
		},
	}, nil)
	m.at = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)
	return m
}

func titles(rows []*topRow) (names []string) {
	for _, r := range rows {
		names = append(names, r.Job)
	}
	return names
}

// pressAll types keys: names in angle brackets, runes else.
func pressAll(m *topModel, keys ...string) (last topAction) {
	for _, k := range keys {
		if name, ok := strings.CutPrefix(k, "<"); ok {
			last = m.press(key{name: strings.TrimSuffix(name, ">")})
			continue
		}
		for _, r := range k {
			last = m.press(key{r: r})
		}
	}
	return last
}

func TestTopSortsAndFilters(t *testing.T) {
	for _, test := range []struct {
		name string
		keys []string
		want []string
	}{
		{"by CPU at first, what is not known last", nil, []string{"web", "db", "new"}},
		{"memory", []string{"m"}, []string{"db", "web", "new"}},
		{"I/O", []string{"i"}, []string{"web", "db", "new"}},
		{"name", []string{"p"}, []string{"db", "new", "web"}},
		{"processes", []string{"t"}, []string{"db", "web", "new"}},
		{"pressure", []string{"w"}, []string{"web", "db", "new"}},
		{"the same key again reverses", []string{"pp"}, []string{"web", "new", "db"}},
		{"r reverses", []string{"r"}, []string{"new", "db", "web"}},
		{"another key ends that", []string{"rm"}, []string{"db", "web", "new"}},
		{"filter", []string{"/DATA", "<enter>"}, []string{"db"}},
		{"filter by allocation", []string{"/cccc", "<enter>"}, []string{"new"}},
		{"filter is edited", []string{"/wex", "<backspace>", "b"}, []string{"web"}},
		{"keys are text in it", []string{"/m"}, []string{"new"}},
		{"escape ends it", []string{"/web", "<esc>"}, []string{"web", "db", "new"}},
		{"also later", []string{"/web", "<enter>", "<esc>"}, []string{"web", "db", "new"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := exampleTop()
			pressAll(m, test.keys...)
			testkit.Diff(t, "result", test.want, titles(m.visible()))
		})
	}
}

func TestTopActions(t *testing.T) {
	for _, test := range []struct {
		keys []string
		want topAction
	}{
		{[]string{"q"}, topQuit},
		{[]string{"<ctrl-c>"}, topQuit},
		{[]string{"/", "<ctrl-c>"}, topQuit},
		{[]string{"hq"}, topNothing},
		{[]string{"<enter>", "q"}, topNothing},
		{[]string{"<enter>", "qq"}, topQuit},
		{[]string{"/q"}, topNothing},
		{[]string{" "}, topRefresh},
		{[]string{"<ctrl-l>"}, topRefresh},
		{[]string{"x"}, topNothing},
		{[]string{"xy"}, topShell},
		{[]string{"Ry"}, topRestart},
		{[]string{"<enter>", "Sy"}, topStop},
		{[]string{"Sn"}, topNothing},
		{[]string{"Snq"}, topQuit},
		{[]string{"R", "<ctrl-c>"}, topQuit},
		{[]string{"/nothing", "<enter>", "Ry"}, topNothing},
		{[]string{"l"}, topRefresh},
		{[]string{"lqq"}, topQuit},
		{[]string{"y"}, topNothing},
	} {
		testkit.Equal(t, pressAll(exampleTop(), test.keys...), test.want, "%q", test.keys)
	}
}

func TestTopSelectionFollowsItsTask(t *testing.T) {
	m := exampleTop()
	pressAll(m, "<down>")
	pressAll(m, "m")
	if row, at := m.chosen(); row.Job != "db" || at != 0 {
		t.Errorf("%s at %d, want db at 0", row.Job, at)
	}
	pressAll(m, "<end>")
	if row, at := m.chosen(); row.Job != "new" || at != 2 {
		t.Errorf("%s at %d, want new at 2", row.Job, at)
	}
	pressAll(m, "<page up>", "k")
	if row, _ := m.chosen(); row.Job != "db" {
		t.Errorf("%s, want db", row.Job)
	}
}

func exampleCommands() *record.Commands {
	return &record.Commands{TotalCPUSeconds: new(100.0), UnattributedCPUSeconds: new(0.5), Rows: []procstats.Command{
		{Name: "cc1", Processes: 412, Failed: 3, CPUSeconds: 96, PeakRSSBytes: 181 << 20, PeakRSSGuarantee: procstats.Exact},
		{
			Name: "sh\x1b[2J", Processes: 9, Failed: 9, CPUSeconds: 3.5, PeakRSSBytes: 1 << 20,
			PeakRSSGuarantee: procstats.UpperBound,
		},
	}}
}

func TestTopCommands(t *testing.T) {
	m := exampleTop()
	m.palette = cli.Palette{}
	m.rows[0].sample = &client.Sample{Processes: &client.Processes{}}
	m.rows[0].commands = exampleCommands()
	testkit.Equal(t, m.opened(), "", "opened")
	if action := pressAll(m, "<enter>"); action != topRefresh || m.opened() != m.rows[0].key() {
		t.Errorf("enter: %v, and %q is opened", action, m.opened())
	}
	const table = `
  COMMAND STARTED FAILED CPU SHARE LARGEST WAITED FOR CPU`
	for keys, want := range map[string]string{
		"":  "by command (f: failed first)" + table + "\n  cc1 412 3 1m36s 96 % 181 MiB –\n sh\\x1b[2J",
		"f": "by command, failed first (f: by CPU)" + table + "\n  sh\\x1b[2J",
	} {
		pressAll(m, keys)
		view := strings.Join(m.view(80, 40), "\n")
		if !strings.Contains(strings.Join(strings.Fields(view), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%q:\n%s\nwant\n%s", keys, view, want)
		}
		m.failedFirst = false
	}
}

func TestTopViewFitsTheScreen(t *testing.T) {
	m := exampleTop()
	m.palette = cli.Palette{On: true}
	m.err = errors.New("no agent output\x1b[2J at unix:/nowhere")
	m.rows[0].sample = &client.Sample{Processes: &client.Processes{Rows: []client.Process{
		{PID: 7, PPID: 1, Command: "sh\x1b[31m"}, {PID: 9, PPID: 7, Command: "sleep"},
	}}}
	m.rows[0].commands = exampleCommands()
	for _, keys := range [][]string{
		nil,
		{"h"},
		{"<enter>"},
		{"<enter>", "f"},
		{"<down>", "<enter>"},
		{"/nothing"},
		{"h", "<end>"},
	} {
		pressAll(m, keys...)
		for width := 1; width < 130; width++ {
			heights := []int{24} // lines are laid out alike at each height
			if width%16 == 0 {
				heights = []int{0, 1, 2, 3, 5, 24}
			}
			for _, height := range heights {
				view := m.view(width, height)
				if len(view) > max(height, 2) {
					t.Fatalf("%q, %d×%d: %d lines", keys, width, height, len(view))
				}
				for _, line := range view {
					if cli.VisibleWidth(line) > width {
						t.Fatalf("%q, %d×%d: %d columns: %q", keys, width, height, cli.VisibleWidth(line), line)
					}
					if strings.Contains(line, "\x1b[2J") {
						t.Fatalf("a name reaches the terminal as it is: %q", line)
					}
				}
			}
		}
		pressAll(m, "<esc>", "<esc>")
	}
	if lines := strings.Join(helpLines(80), "\n"); strings.Contains(lines, "…") {
		t.Errorf("the keys do not fit into 80 columns:\n%s", lines)
	}
}

func TestParseKeys(t *testing.T) {
	for _, test := range []struct {
		text string
		want []key
	}{
		{"q", []key{{r: 'q'}}},
		{"ä%", []key{{r: 'ä'}, {r: '%'}}},
		{"\x1b[A\x1bOBj", []key{{name: "up"}, {name: "down"}, {r: 'j'}}},
		{"\x1b", []key{{name: "esc"}}},
		{"\x1bq", []key{{name: "esc"}, {r: 'q'}}},
		{"\x1b[5~\x1b[6~\x1b[H\x1bOF", []key{{name: "page up"}, {name: "page down"}, {name: "home"}, {name: "end"}}},
		{"\r\x7f\x03\x0c", []key{{name: "enter"}, {name: "backspace"}, {name: "ctrl-c"}, {name: "ctrl-l"}}},
		{"\x1b[1;5A\x1b[200~x\x01\xff", []key{{r: 'x'}}},
		{"\x1b[", nil},
	} {
		testkit.Diff(t, fmt.Sprintf("%q", test.text), test.want, parseKeys([]byte(test.text)), cmp.AllowUnexported(key{}))
	}
}

// TestTopShowsNoOldReadings is about readings that stand where fresh ones do not come any more.
func TestTopShowsNoOldReadings(t *testing.T) {
	a := &apijson.Allocation{
		ID: "aaaaaaaa-1", Name: "web.app[0]", JobID: "web",
		TaskStates: map[string]*apijson.TaskState{"server": {State: "running"}},
	}
	at := time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)
	p := &taskPoll{}
	look := func(seconds int, cpu float64, reason string) *topRow {
		reading := &client.Reading{Running: true, Reason: reason, Sample: &client.Sample{
			At: at.Add(time.Duration(seconds) * time.Second), Mono: float64(seconds),
			Headline: map[string]record.HeadlineValue{
				"cpu_seconds_total":    {Value: &cpu},
				"memory_charged_bytes": {Value: new(4096.0)},
			},
		}}
		stats := &client.Stats{}
		stats.Tacho.Tasks = map[string]*client.Reading{"server": reading}
		row := p.row(a, "server", stats)
		p.known = map[string]*topRow{row.key(): row}
		return row
	}
	const reason = "no fresh reading: the driver sent no sample"
	for _, step := range []struct {
		seconds int
		cpu     float64
		reason  string
		cores   *float64
		fresh   bool
	}{
		{0, 1, "", nil, true},
		{1, 2, "", new(1.0), true},
		{1, 2, reason, nil, false},
		{20, 3, "", nil, true},
		{21, 5, "", new(2.0), true},
	} {
		row := look(step.seconds, step.cpu, step.reason)
		testkit.Diff(t, fmt.Sprintf("after %d s, %q", step.seconds, step.reason), step.cores, row.Cores)
		if fresh := row.sample != nil && row.Charged != nil; fresh != step.fresh || row.Reason != step.reason {
			t.Errorf("after %d s: usage (shown: %v) and %q, want %q", step.seconds, fresh, row.Reason, step.reason)
		}
	}
}

// TestTopSaysWhyItIsEmpty holds that an agent without tasks is asked whether it publishes.
func TestTopSaysWhyItIsEmpty(t *testing.T) {
	for reason, want := range map[string]string{"": "no tasks", "publishing is off": "no tasks; publishing is off"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := map[string]string{
				"/v1/allocations": "[]", "/v1/client/allocations/stats": "{}",
				"/v1/agent/self": fmt.Sprintf(`{"Tacho": {"reason": %q}}`, reason),
			}[r.URL.Path]
			_, _ = io.WriteString(w, answer)
		}))
		agent := testkit.Value(client.New(client.Options{Address: server.URL}))(t)
		poll := &taskPoll{agent: agent}
		rows, err := poll.read(t.Context(), "", false)
		if err != nil || len(rows) > 0 || poll.none != want {
			t.Errorf("%d rows, %v, %q; want %q", len(rows), err, poll.none, want)
		}
		agent.Close()
		server.Close()
	}
}
