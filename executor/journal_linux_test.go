// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestJournalIsReadable holds that a name of a process, which may be any bytes, does not break the wire for callers
// that take texts.
func TestJournalIsReadable(t *testing.T) {
	j := newJournal()
	j.add("oom_kill", "process a\xffb was killed", map[string]string{"command": "a\xff", "limit": "1"})
	event, err := j.Follow(0).Next(t.Context())
	if err != nil || event.GetSequence() != 1 {
		t.Fatalf("event %v, %v", event, err)
	}
	testkit.Equal(t, event.GetMessage(), "process a\ufffdb was killed", "message")
	if got := event.GetAnnotations(); got["command"] != "a\ufffd" || got["limit"] != "1" {
		t.Errorf("annotations %q", got)
	}
}
