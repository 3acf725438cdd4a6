// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// What an address names is killed and removed: one that was put elsewhere is not believed.
func TestReadAddress(t *testing.T) {
	dir := t.TempDir()
	own, other, link := filepath.Join(dir, "own"), filepath.Join(dir, "other"), filepath.Join(dir, "link")
	for _, folder := range []string{own, other} {
		testkit.Must(t, os.Mkdir(folder, 0o700))
	}
	testkit.Must(t, os.Symlink(dir, link))
	cases := []struct{ name, text, want string }{
		{"own", `{"id":"a","folder":"` + own + `"}`, ""},
		{"own, another way", `{"id":"a","folder":"` + filepath.Join(link, "own") + `"}`, ""},
		{"another", `{"id":"a","folder":"` + other + `"}`, "it belongs to another directory"},
		{"gone", `{"id":"a","folder":"/nowhere"}`, "it belongs to another directory"},
		{"none", `{"id":"a"}`, "it belongs to another directory"},
		{"cut short", `{"id":"a","folder":"`, "unexpected end of JSON"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			testkit.Must(t, os.WriteFile(filepath.Join(own, addressFile), []byte(c.text), 0o600))
			address, err := ReadAddress(own)
			if c.want == "" {
				if err != nil || address.ID != "a" {
					t.Errorf("got %+v, %v", address, err)
				}
				return
			}
			// A folder without an address is passed over in lists, this is not.
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %+v, %v; want an error with %q", address, err, c.want)
			}
		})
	}
}
