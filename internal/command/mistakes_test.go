// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package command_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/command"
	"github.com/tachograph/tacho/internal/testkit"
)

// mistakes are command lines as people get them wrong. Words with blanks are in single quotes.
const mistakes = `
run
watch
watch --pid ''
watch --pid 1 --cgroup /
run --timeout 10 -- true
run --timeout 10sec -- true
run --timeout ten -- true
run --timeout -1s -- true
run --interval 1ms -- true
run --interval 0.5 -- true
run --memory 400 -- true
run --memory 400MM -- true
run --memory=lots -- true
run --memory-high 12 -- true
run --cpu many -- true
run --cpu 0 -- true
run --memory 0 -- true
run --pids 0 -- true
run --cpu-weight 0 -- true
run --pids few -- true
run --tmeout 10s -- true
run --mem 400M -- true
run -timeout 10s -- true
run -interval 1s -- true
run --label team -- true
run --label =db -- true
run --capture out -- true
run --kill-signal TREM -- true
run --measurements cgroup_cpu_usage_total -- true
run --measurements psi,gpu -- true
run --format yaml -- true
run --disk /no/such/directory -- true
run --record-file a --record-fd 3 -- true
run --record-file a --detach -- true
run --cgroup on -- true
run --no-files --capture stdout -- true
run --no-files=maybe -- true
run --max-rows 0 -- true
run --max-rows 1.5 -- true
run --fail-if 'memory_peak 400M' -- true
run --fail-if 'memory_peek > 400M' -- true
run --fail-if 'memory_peak > lots' -- true
run --fail-if 'process_state > 1' -- true
run --fail-if 'wall > 10' --detach -- true
run --runs 0 -- true
run --runs 3 --detach -- true
run --runs 3 --warmup 1 --textfile x.prom --detach -- true
run --runs 3 --record-fd 3 -- true
run --runs 3 -- true ---
run --runs 3 --name A --name B -- true
run --parameter n -- true
run --parameter n=1,2 -- echo {m}
run --prepare 'a && b' -- true
run --prepare missing -- true
run --warmup -1 -- true
run --summary-file /no/such/directory/s.md -- true
run -- 'make -j4'
run -- no-such-command
run -- /no/such/script.sh
run -- .
lss
list --fromat json
ls --format xml
ls --limit many
ls --limit -1
ls --state finished
ls last
show 2031
show last~9
show last~one
show last extra
show --al
compare nosuch
advise nosuch
advise last --job web
advise --job ''
advise --core-mhz 0
advise --job nosuch
advise --days 3
advise --nomad one two
advise --nomad --job web
advise --nomad --days 0
advise --nomad --fail-if 'memory_peak > 20%'
advise --nomad --fail-if 'wasted_memory > lots'
diff last
diff --max-increase memory_peak last~1 last
diff --max-increase memory_peak=-5% last~1 last
diff last last~1 2026
plot --output run.png
report last -o run.pdf
prune --older-than 7
prune --keep -1
explain memory_peek_bytes
explain memory_byte
stop
top --addr ftp://127.0.0.1
top --addr foo:bar
top --delay 2
top --iterations 0
alloc status nosuch
alloc status busy
alloc logs
alloc logs --tail -1 leak
alloc restrat leak
job run
job run no-such-file.hcl
`

// TestMistakes holds that the message of a mistake names what is wrong, where, and the right form: testdata/mistakes.txt has
// them all, and their exit codes.
func TestMistakes(t *testing.T) {
	golden := testkit.Value(filepath.Abs("testdata/mistakes.txt"))(t)
	runs := testkit.Value(filepath.Abs("testdata/runs"))(t)
	agent := httptest.NewServer(newFakeAgent(t, ""))
	defer agent.Close()
	t.Setenv("TACHO_ADDR", strings.TrimPrefix(agent.URL, "http://"))
	t.Setenv("TACHO_OUTPUT_DIR", runs)
	var got strings.Builder
	for line := range strings.Lines(strings.TrimLeft(mistakes, "\n")) {
		args := wordsOf(strings.TrimSuffix(line, "\n"))
		dir := t.TempDir()
		if args[0] == "run" {
			args = append([]string{"run", "--output-dir", dir}, args[1:]...)
		}
		var stdout, stderr bytes.Buffer
		code := command.Execute(context.Background(), args, strings.NewReader(""), &stdout, &stderr)
		text := strings.NewReplacer(runs, "RUNS", dir, "RUNS").Replace(stderr.String())
		fmt.Fprintf(&got, "$ tacho %s%s[exit code %d]\n", line, text, code)
		if code == 0 || stdout.Len() > 0 || strings.Count(text, "\n") != 1 {
			t.Errorf("tacho %s: exit code %d, stdout %q, stderr %q: want an error in one line", line, code, &stdout, text)
		}
	}
	compareGolden(t, golden, got.String())
}

// compareGolden compares what was shown with a file, or writes the file.
func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want := testkit.Value(os.ReadFile(path))(t)
	testkit.Diff(t, "result", string(want), got)
}

// wordsOf splits a line at blanks that are not in single quotes.
func wordsOf(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}
