// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestCheckUser(t *testing.T) {
	me := uint32(os.Geteuid())
	for _, test := range []struct {
		name   string
		user   string
		uids   IDRanges
		gids   IDRanges
		denied bool
	}{
		{"nothing is denied", "no such user, and no lookup", nil, nil, false},
		{"by number", "1234", IDRanges{{1000, 2000}}, nil, true},
		{"another number", "999", IDRanges{{1000, 2000}}, nil, false},
		{"the number's own group", "1234", nil, IDRanges{{1234, 1234}}, true},
		{"a group that was asked for", "1234:77", nil, IDRanges{{77, 77}}, true},
		{"this process's user", "", IDRanges{{me, me}}, nil, true},
		{"this process's group", "", nil, IDRanges{{uint32(os.Getegid()), uint32(os.Getegid())}}, true},
		{"root by name", "root", IDRanges{{0, 0}}, nil, true},
		{"no group after the colon", "1234:", nil, IDRanges{{77, 77}}, false},
		{"no group after the colon, and denied", "1234:", IDRanges{{1234, 1234}}, nil, true},
		{"unknown", "no such user", IDRanges{{0, 0}}, nil, true},
		{"unknown group", strconv.Itoa(1234) + ":no such group", IDRanges{{0, 0}}, nil, true},
	} {
		err := checkUser(test.user, Config{DeniedUIDs: test.uids, DeniedGIDs: test.gids})
		if (err != nil) != test.denied || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	for name, want := range map[string]string{
		"nobody-here":      "unknown user nobody-here",
		"1234:nobody-here": "unknown group nobody-here",
	} {
		if _, _, err := idsOf(name); !errors.Is(err, ErrInvalid) || err.Error() != want {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestRefusalWords holds refusals to the words that Nomad's tests of raw_exec look for, as "make peers" runs them.
func TestRefusalWords(t *testing.T) {
	me := uint32(os.Geteuid())
	_, unknown := process.LookupUser("alice")
	_, denied := parseIDRanges("denied_host_uids", "100-1")
	refusals := map[string]error{
		"unknown user": unknown, "denied range": denied, "denied user": checkUser("", Config{DeniedUIDs: IDRanges{{me, me}}}), "disabled": ErrDisabled,
	}
	replaced := strings.NewReplacer("%s", strconv.Itoa(int(me)), "raw_exec", Name)
	text := testkit.Value(os.ReadFile("../e2e/peers/testdata/refusals.txt"))(t)
	for line := range strings.Lines(string(text)) {
		what, words, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if words = replaced.Replace(words); refusals[what] == nil || !strings.Contains(refusals[what].Error(), words) {
			t.Errorf("%s: %v does not have the words %q", what, refusals[what], words)
		}
		delete(refusals, what)
	}
	if len(refusals) > 0 {
		t.Errorf("no words for %v", refusals)
	}
}
