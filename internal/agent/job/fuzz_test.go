// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"strings"
	"testing"
)

// FuzzParse parses any text: the result is a job or an error with a text.
func FuzzParse(f *testing.F) {
	const longest = 8 << 10 // so that many are tried
	f.Add(good)
	f.Add("job \"j\" {")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > longest {
			t.Skip()
		}
		j, err := Read(Source{Filename: "f", Text: text})
		if (err == nil) != (j != nil) {
			t.Errorf("job %v, error %v", j, err)
		}
		if err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Error("an error without a text")
		}
	})
}

// FuzzTranslate translates anything: what is written is either a job or refused, and a text stays one text.
func FuzzTranslate(f *testing.F) {
	f.Add(`{"ID": "x"}`)
	f.Add(`{"ID": "x", "Meta": {"a": "${b} $${c} %{d} \u2028"}, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "d"}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		translation, err := Translate([]byte(text))
		if err != nil {
			return
		}
		if _, err := Read(translation.Source); err != nil {
			_ = translation.Explain(err.Error())
		}
		if lines := strings.Count(translation.Source.Text, "\n"); lines != len(translation.lines) {
			t.Errorf("%d lines and %d places", lines, len(translation.lines))
		}
	})
}
