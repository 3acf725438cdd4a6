// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/testkit"
)

// rotatingDir has log files that are rotated just after they were listed.
type rotatingDir struct {
	datadir.Allocation
	listed func()
}

func (d *rotatingDir) OpenLog(task, stream string, after int) (*datadir.Log, error) {
	log, err := d.Allocation.OpenLog(task, stream, after)
	d.listed()
	return log, err
}

// TestTailOverRotation follows a log whose files are rotated between two looks at it.
func TestTailOverRotation(t *testing.T) {
	for name, tt := range map[string]struct {
		offset  int64
		fromEnd bool
		first   string   // of the file at the beginning
		want    string   // of it
		files   []string // that take its place, of which only so many are kept
		kept    int
		after   string   // what is read then
		between []string // files that come between the first list and what follows it
	}{
		"one file is kept, with an offset": {offset: 2, first: "abc", want: "c", files: []string{"def"}, kept: 1, after: "def"},
		"one file is kept, from the end":   {fromEnd: true, first: "abc", files: []string{"def"}, kept: 1, after: "def"},
		"two rotations": {
			fromEnd: true, offset: 1, first: "abc", want: "c", files: []string{"def", "ghi"}, kept: 2, after: "defghi",
		},
		"all are kept":          {offset: 1, first: "abc", want: "bc", files: []string{"def", "ghi"}, kept: 3, after: "defghi"},
		"while it is opened":    {first: "abc", want: "abcxyz", between: []string{"xyz"}, files: []string{"def"}, kept: 3, after: "def"},
		"the oldest leaves too": {first: "abc", want: "abcxyz", between: []string{"xyz"}, files: []string{"def"}, kept: 1, after: "def"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := &rotatingDir{Allocation: datadir.In(t.TempDir(), webID), listed: func() {}}
			testkit.Must(t, os.MkdirAll(dir.Logs(), 0o700))
			newest := -1
			rotate := func(texts []string, kept int) {
				for _, text := range texts {
					newest++
					testkit.Must(t, os.WriteFile(logFile(dir.Allocation, newest), []byte(text), 0o600))
					for n := range max(0, newest+1-kept) {
						testkit.Must(t, os.RemoveAll(logFile(dir.Allocation, n)))
					}
				}
			}
			rotate([]string{tt.first}, 9)
			dir.listed = func() { // once
				between := tt.between
				tt.between = nil
				rotate(between, 9)
			}
			tail := &tail{dir: dir, task: "web", stream: "stdout", follow: true, offset: tt.offset, fromEnd: tt.fromEnd}
			defer tail.close()
			testkit.Equal(t, readAll(t, tail), tt.want, "read")
			rotate(tt.files, tt.kept)
			testkit.Equal(t, readAll(t, tail), tt.after, "then")
		})
	}
}

func logFile(dir datadir.Allocation, n int) string {
	return filepath.Join(dir.Logs(), "web.stdout."+strconv.Itoa(n))
}

// readAll reads until there is nothing three times, as one who polls does.
func readAll(t *testing.T, tail *tail) (text string) {
	t.Helper()
	buffer := make([]byte, 100)
	for nothing := 0; nothing < 3; {
		n := testkit.Value(tail.read(buffer))(t)
		if n == 0 {
			nothing++
		}
		text += string(buffer[:n])
	}
	return text
}
