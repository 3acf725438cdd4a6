// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/logs"
	"github.com/tachograph/tacho/internal/testkit"
)

// soon is how long anything may take that is expected to happen at all.
const soon = 20 * time.Second

// event is one that was reported.
type event struct {
	Kind, Message string
	Annotations   map[string]string
}

// running is a collector at work, with the ends of its streams that a task would have.
type running struct {
	*logs.Collector
	stdout, stderr *os.File
	// taskEnds says that the task is gone; ended is closed when the logs are, too.
	taskEnds context.CancelFunc
	ended    chan struct{}
	events   chan event
}

func start(t testing.TB, o logs.Options) *running {
	t.Helper()
	r := &running{ended: make(chan struct{}), events: make(chan event, 64)}
	o.Prefix = "task"
	o.Report = func(kind, message string, annotations map[string]string) {
		r.events <- event{kind, message, annotations}
	}
	var err error
	if r.Collector, err = logs.Open(o); err != nil {
		t.Fatal(err)
	}
	r.stdout, r.stderr = r.TakeWriters()
	ctx, cancel := context.WithCancel(t.Context())
	r.taskEnds = cancel
	go func() {
		defer close(r.ended)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.ended
		must(t, r.Close())
	})
	return r
}

// end closes the task's streams and waits for the logs.
func (r *running) end(t testing.TB) {
	t.Helper()
	must(t, errors.Join(r.stdout.Close(), r.stderr.Close()))
	r.await(t)
}

func (r *running) await(t testing.TB) {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(soon):
		t.Fatalf("the logs have not ended after %s", soon)
	}
}

// expect waits for an event of a kind, and passes over others.
func (r *running) expect(t testing.TB, kind string) event {
	t.Helper()
	timeout := time.After(soon)
	for {
		select {
		case e := <-r.events:
			if e.Kind == kind {
				return e
			}
			t.Logf("event %s: %s", e.Kind, e.Message)
		case <-timeout:
			t.Fatalf("no event %s in %s", kind, soon)
		}
	}
}

// quiet fails the test where there were events.
func (r *running) quiet(t testing.TB) {
	t.Helper()
	for {
		select {
		case e := <-r.events:
			t.Errorf("event %s: %s", e.Kind, e.Message)
		default:
			return
		}
	}
}

// series lists the files of a stream in their order.
func series(t testing.TB, dir, stream string) []string {
	t.Helper()
	stem := filepath.Join(dir, "task."+stream+".")
	paths := testkit.Value(filepath.Glob(stem + "*"))(t)
	number := func(path string) int {
		n := testkit.Value(strconv.Atoi(strings.TrimPrefix(path, stem)))(t)
		return n
	}
	slices.SortFunc(paths, func(a, b string) int { return number(a) - number(b) })
	return paths
}

// text is the text of all files of a stream, one after the other.
func text(t testing.TB, dir, stream string) string {
	t.Helper()
	var all strings.Builder
	for _, path := range series(t, dir, stream) {
		content := testkit.Value(os.ReadFile(path))(t)
		all.Write(content)
	}
	return all.String()
}

func TestCollect(t *testing.T) {
	dir := t.TempDir()
	for _, round := range []string{"first", "second"} {
		r := start(t, logs.Options{Dir: dir, MaxFileBytes: 1 << 20, MaxFiles: 2})
		fmt.Fprintf(r.stdout, "%s out\n", round)
		fmt.Fprintf(r.stderr, "%s err\n", round)
		r.end(t)
		r.quiet(t)
	}
	got := map[string]string{"stdout": text(t, dir, "stdout"), "stderr": text(t, dir, "stderr")}
	want := map[string]string{"stdout": "first out\nsecond out\n", "stderr": "first err\nsecond err\n"}
	testkit.Diff(t, "logs of two tasks, one after the other", want, got)
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	good := logs.Options{Dir: dir, Prefix: "task", MaxFileBytes: 1, MaxFiles: 1}
	tests := []struct {
		name   string
		change func(*logs.Options)
		want   error
	}{
		{"no size", func(o *logs.Options) { o.MaxFileBytes = 0 }, logs.ErrInvalid},
		{"no files", func(o *logs.Options) { o.MaxFiles = 0 }, logs.ErrInvalid},
		{"negative", func(o *logs.Options) { o.MaxFiles = -1 }, logs.ErrInvalid},
		{"no prefix", func(o *logs.Options) { o.Prefix = "" }, logs.ErrInvalid},
		{"way out", func(o *logs.Options) { o.Prefix = "../task" }, logs.ErrInvalid},
		{"end of string", func(o *logs.Options) { o.Prefix = "a\x00b" }, logs.ErrInvalid},
		{"long name", func(o *logs.Options) { o.Prefix = strings.Repeat("n", 260) }, unix.ENAMETOOLONG},
		{"no folder", func(o *logs.Options) { o.Dir = filepath.Join(dir, "none") }, os.ErrNotExist},
		{"no folder but a file", func(o *logs.Options) { o.Dir = "/etc/passwd" }, unix.ENOTDIR},
	}
	before := descriptors(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := good
			tt.change(&o)
			if _, err := logs.Open(o); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries := testkit.Value(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

// TestNothingIsLost writes a hundred megabytes of lines through both streams, and reads them back.
func TestNothingIsLost(t *testing.T) {
	const bytesPerStream = 50 << 20
	dir := t.TempDir()
	r := start(t, logs.Options{Dir: dir, MaxFileBytes: 1 << 20, MaxFiles: 1000})
	began := time.Now()
	sums := make([][]byte, 2)
	var writing sync.WaitGroup
	for i, stream := range []*os.File{r.stdout, r.stderr} {
		writing.Go(func() { sums[i] = writeLines(t, stream, bytesPerStream) })
	}
	writing.Wait()
	r.end(t)
	took := time.Since(began)
	t.Logf("%d MB through two streams in %s: %.0f MB/s", 2*bytesPerStream>>20, took.Round(time.Millisecond),
		2*bytesPerStream/1e6/took.Seconds())
	r.quiet(t)
	testkit.Equal(t, r.Dropped(), 0, "bytes dropped")
	for i, stream := range []string{"stdout", "stderr"} {
		sum := sha256.New()
		paths := series(t, dir, stream)
		for n, path := range paths {
			content := testkit.Value(os.ReadFile(path))(t)
			sum.Write(content)
			if n < len(paths)-1 && content[len(content)-1] != '\n' {
				t.Errorf("%s ends within a line", path)
			}
			if longest := 1<<20 + 16<<10; len(content) > longest {
				t.Errorf("%s has %d bytes, want at most %d", path, len(content), longest)
			}
		}
		if len(paths) < bytesPerStream>>20 {
			t.Errorf("%d files of %s", len(paths), stream)
		}
		if !slices.Equal(sum.Sum(nil), sums[i]) {
			t.Errorf("%s has other bytes than were written", stream)
		}
	}
}

// writeLines writes numbered lines of many lengths and returns the checksum of all.
func writeLines(t testing.TB, to io.Writer, bytes int) []byte {
	sum := sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(to, sum), 5000)
	for written, line := 0, 0; written < bytes; line++ {
		n, err := fmt.Fprintf(buffered, "%d %s\n", line, strings.Repeat("x", line*7%400))
		if err != nil {
			t.Error(err)
			return nil
		}
		written += n
	}
	testkit.NoError(t, buffered.Flush())
	return sum.Sum(nil)
}

// What is in the pipe when the task is gone is written, although another process holds the stream; and then no process
// waits for them.
func TestHeldStream(t *testing.T) {
	dir := t.TempDir()
	r := start(t, logs.Options{Dir: dir, MaxFileBytes: 1 << 20, MaxFiles: 2})
	fmt.Fprintln(r.stdout, "the last words")
	began := time.Now()
	r.taskEnds() // r.stdout stays open, as in a process that is none of the task's
	r.await(t)
	if took := time.Since(began); took > time.Second {
		t.Errorf("the end took %s, although there was nothing to wait for", took)
	}
	testkit.Equal(t, text(t, dir, "stdout"), "the last words\n", "stdout has")
	r.expect(t, logs.KindAbandoned)
}

// A process outside the task that writes without an end does not delay the end forever.
func TestEndlessStream(t *testing.T) {
	dir := t.TempDir()
	r := start(t, logs.Options{Dir: dir, MaxFileBytes: 1 << 20, MaxFiles: 2})
	var writing sync.WaitGroup
	for range 4 {
		writing.Go(func() {
			for err := error(nil); err == nil; { // until it is not read any more
				_, err = r.stdout.Write(make([]byte, 60<<10))
			}
		})
	}
	began := time.Now()
	r.taskEnds()
	r.await(t)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %s", took)
	}
	writing.Wait()
	r.expect(t, logs.KindAbandoned)
}

// BenchmarkCollect is what one stream can carry: writers wait for the files.
func BenchmarkCollect(b *testing.B) {
	r := start(b, logs.Options{Dir: b.TempDir(), MaxFileBytes: 10 << 20, MaxFiles: 2})
	lines := []byte(strings.Repeat("0123456789 0123456789 0123456789 0123456789 0123456789 0123456\n", 512))
	b.SetBytes(int64(len(lines)))
	for b.Loop() {
		if _, err := r.stdout.Write(lines); err != nil {
			b.Fatal(err)
		}
	}
	r.end(b)
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
