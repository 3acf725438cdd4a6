// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// tested is how a test ended in a place.
type tested struct {
	place, pkg, test string
	status           string // PASS, FAIL or SKIP; "note" is a line of noteMark
	reason           string // of a test that was skipped
}

// noteMark begins what a test logs for the table of kernels.
const noteMark = "measured here: "

// encode writes a line for each.
func encode(all []tested) []byte {
	var text bytes.Buffer
	for _, t := range all {
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%s\n", t.place, t.pkg, t.test, t.status, strings.ReplaceAll(t.reason, "\t", " "))
	}
	return text.Bytes()
}

// decode reads what encode wrote.
func decode(text string) []tested {
	var all []tested
	for line := range strings.Lines(text) {
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 5); len(f) == 5 {
			all = append(all, tested{f[0], f[1], f[2], f[3], f[4]})
		}
	}
	return all
}

// readTests reads what the tests of a package print with -v. What a test logs comes between lines that name it; the
// results of subtests come after that of the test.
func readTests(text, place, pkg string) []tested {
	var (
		all     []tested
		current string
		reasons = map[string]string{}
		turn    = regexp.MustCompile(`^=== (?:RUN|CONT|NAME) +(\S+)`)
		logged  = regexp.MustCompile(`^ +\w+\.go:\d+: (.*)`)
		end     = regexp.MustCompile(`--- (PASS|FAIL|SKIP): (\S+) \(\d`)
	)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if match := turn.FindStringSubmatch(line); match != nil {
			current = match[1]
		} else if match := logged.FindStringSubmatch(line); match != nil {
			reasons[current] = match[1]
			if note, ok := strings.CutPrefix(match[1], noteMark); ok {
				all = append(all, tested{place, pkg, current, "note", note})
			}
		} else if match := end.FindStringSubmatch(line); match != nil {
			t := tested{place, pkg, match[2], match[1], ""}
			if t.status == "SKIP" {
				t.reason = reasons[t.test]
			}
			all = append(all, t)
		}
	}
	return all
}

// record reads what "go test -v" prints of packages, prints it as go test does without -v, and returns how their tests
// ended, and whether all packages passed.
func record(in io.Reader, out io.Writer, place, module string) (all []tested, passed bool, err error) {
	var (
		text  bytes.Buffer
		lines = bufio.NewScanner(in)
		ended = regexp.MustCompile(`^(ok  |FAIL|\?   )\t(\S+)`)
	)
	lines.Buffer(nil, 64<<20)
	passed = true
	for lines.Scan() {
		line := lines.Text()
		match := ended.FindStringSubmatch(line)
		if match == nil {
			text.WriteString(line + "\n")
			continue
		}
		if match[1] == "FAIL" {
			passed = false
			_, err = out.Write(text.Bytes())
		}
		if err == nil {
			_, err = fmt.Fprintln(out, line)
		}
		if err != nil {
			return nil, false, err
		}
		all = append(all, readTests(text.String(), place, strings.TrimPrefix(match[2], module+"/"))...)
		text.Reset()
	}
	if strings.Trim(text.String(), "\n") != "" {
		_, err = out.Write(text.Bytes())
		passed = passed && !strings.Contains(text.String(), "FAIL")
	}
	if err == nil {
		err = lines.Err()
	}
	return all, passed, err
}
