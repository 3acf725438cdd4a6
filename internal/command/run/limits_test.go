// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"strings"
	"testing"
)

func TestParseIOMax(t *testing.T) {
	limit, err := parseIOMax("254:16:rbps=1M,wiops=100")
	if err != nil || limit.GetDevice() != "254:16" || limit.GetReadBytesPerSecond() != 1<<20 || limit.GetWriteOperationsPerSecond() != 100 ||
		limit.WriteBytesPerSecond != nil || limit.ReadOperationsPerSecond != nil {
		t.Errorf("%v (%v)", limit, err)
	}
	for text, want := range map[string]string{
		"254:16":                  "must be DEVICE:",
		"254:16:":                 "must be DEVICE:",
		"254:16:speed=1":          `"speed" is not one of`,
		"254:16:rbps":             "must be DEVICE:",
		"254:16:rbps=1,rbps=2":    "given twice",
		"254:16:rbps=0":           "at least 1",
		"254:16:rbps=fast":        "at least 1",
		"/dev/null:rbps=1":        "",
		"/no/such/device:rbps=1M": "",
	} {
		if limit, err := parseIOMax(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v (%v), want %q", text, limit, err, want)
		}
	}
}
