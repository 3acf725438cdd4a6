// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"strings"
	"testing"
)

// What apt-cache show prints for the metapackage.
const bookworm = `Package: linux-image-cloud-amd64
Source: linux-signed-amd64 (6.1.148+1)
Version: 6.1.148-1
Architecture: amd64
Depends: linux-image-6.1.0-39-cloud-amd64 (= 6.1.148-1)
Description-en: Linux for x86-64 cloud (meta-package)
 This package depends on the latest Linux kernel and modules for use on
 .
 Depends: linux-image-9 (= 9)

Package: linux-image-cloud-amd64
Version: 6.1.140-1
Depends: linux-image-6.1.0-37-cloud-amd64 (= 6.1.140-1)
`

func TestDependency(t *testing.T) {
	for _, test := range []struct{ control, name, version string }{
		{"", "", ""},
		{bookworm, "linux-image-6.1.0-39-cloud-amd64", "6.1.148-1"},
		{
			"Depends: linux-image-6.12.43+deb12-cloud-amd64 (= 6.12.43-1~bpo12+1)",
			"linux-image-6.12.43+deb12-cloud-amd64", "6.12.43-1~bpo12+1",
		},
		{"Depends: linux-base (>= 4.12), linux-image-7-amd64(=7~1) | c", "linux-image-7-amd64", "7~1"},
		{"Depends: linux-image-6 (>= 6), linux-image-7, linux-image-8 (= 8)", "linux-image-8", "8"},
		{"Depends: linux-image-6 (>= 6)", "", ""},
		{"Pre-Depends: linux-image-6 (= 6)", "", ""},
		{"Depends: my-linux-image-6 (= 6", "", ""},
	} {
		name, version, ok := dependency(test.control)
		if name != test.name || version != test.version || ok != (name != "") {
			t.Errorf("%q: %q, %q, %v, want %q, %q", test.control, name, version, ok, test.name, test.version)
		}
	}
}

func FuzzDependency(f *testing.F) {
	f.Add(bookworm)
	f.Add("Depends: a | b (= 1), linux-image-c:any (= 2) [amd64]")
	f.Fuzz(func(t *testing.T, control string) {
		name, version, ok := dependency(control)
		if !ok {
			return
		}
		// Both become arguments of apt-get and parts of file names.
		if !strings.HasPrefix(name, "linux-image-") || version == "" || strings.ContainsAny(name+version, "/ \n") {
			t.Errorf("name %q, version %q", name, version)
		}
	})
}

func TestMirror(t *testing.T) {
	for sites, want := range map[string]string{
		"": debian,
		"http://a.example/debian-security/\nhttp://b.example/debian/\n":    "http://b.example/debian",
		"https://c.example/mirror/debian\nhttp://d.example/debian\n":       "https://c.example/mirror/debian",
		"http://archive.ubuntu.com/ubuntu/\nhttps://e.example/nodistro/\n": debian,
	} {
		if got := mirror(sites); got != want {
			t.Errorf("mirror(%q) = %s, want %s", sites, got, want)
		}
	}
}
