// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// writeBTF writes a file of types: words as they are in it.
func writeBTF(t *testing.T, strings string, types ...uint32) FS {
	t.Helper()
	order := binary.NativeEndian
	body := make([]byte, 0, 4*len(types)+len(strings))
	for _, word := range types {
		body = order.AppendUint32(body, word)
	}
	head := order.AppendUint16(nil, btfMagic)
	head = append(head, 1, 0)
	for _, word := range []int{btfHeaderSize, 0, len(body), len(body), len(strings)} {
		head = order.AppendUint32(head, uint32(word)) //nolint:gosec // small
	}
	fs := FS{Sys: t.TempDir()}
	dir := filepath.Join(fs.Sys, "kernel/btf")
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "vmlinux"), append(append(head, body...), strings...), 0o600))
	return fs
}

const structOf, typedefOf = btfStruct << 24, btfTypedef << 24

// Fields are found in a struct, in what it has without a name, and behind typedefs; types that nobody asks for are not
// read.
func TestBTF(t *testing.T) {
	const names = "\x00task\x00state\x00pid\x00other\x00"
	const task, state, pid, other = 1, 6, 12, 16
	damaged := []uint32{other, 31 << 24, 0} // a kind that does not exist
	fs := writeBTF(t, names, append([]uint32{
		task, structOf | 2, 16, state, 9, 8 * 4, 0, 2, 8 * 8, // type 1: a field, and one without a name of type 2
		0, typedefOf, 3, // 2
		0, structOf | 1, 8, pid, 9, 8 * 4, // 3
	}, damaged...)...)
	b := testkit.Value(OpenBTF(fs))(t)
	if s, p := b.Offset("task", "absent", "state"), b.Offset("task", "pid"); s != 4 || p != 12 || b.Err() != nil {
		t.Errorf("state at %d, pid at %d: %v", s, p, b.Err())
	}
	if _, ok := b.OptionalOffset("other", "pid"); ok || !errors.Is(b.Err(), errBTF) {
		t.Errorf("a damaged file: %v", b.Err())
	}
	noError(t, b.Close())
}

// A type that is cut off is an error, and so is a struct that does not exist.
func TestBTFEnds(t *testing.T) {
	for name, test := range map[string]struct {
		types []uint32
		want  error
	}{
		"cut off": {[]uint32{1, structOf | 2, 16, 6, 9, 0}, errBTF},
		"begun":   {[]uint32{1}, errBTF},
		"whole":   {[]uint32{1, structOf, 0}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := testkit.Value(OpenBTF(writeBTF(t, "\x00other\x00", test.types...)))(t)
			b.Offset("task", "pid")
			if b.Err() == nil || test.want != nil && !errors.Is(b.Err(), test.want) {
				t.Errorf("error %v", b.Err())
			}
			noError(t, b.Close())
		})
	}
}
