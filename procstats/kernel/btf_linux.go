// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// BTF is the kernel's description of its own types, /sys/kernel/btf/vmlinux, since Linux 5.4. It is used by one
// goroutine at a time.
type BTF struct {
	file    []byte // mapped memory, which is no part of the heap
	types   []byte
	strings []byte
	at      []uint32          // where in types every btfStride-th type is, the first of them at 0
	found   map[string]uint32 // structs
	err     error             // the first field that was not found, or why the types cannot be read to their end
}

// The format of BTF: the header, kinds of types, and what follows the 12 bytes that every type begins with.
const (
	btfMagic      = 0xeb9f
	btfHeaderSize = 24
	btfTypeSize   = 12
	btfStride     = 64

	btfInt       = 1
	btfPointer   = 2
	btfStruct    = 4
	btfUnion     = 5
	btfTypedef   = 8
	btfVolatile  = 9
	btfConst     = 10
	btfFuncProto = 13
	btfTypeTag   = 18
)

// errBTF reports a file that is not what this build knows as BTF.
var errBTF = errors.New("unknown format")

// OpenBTF reads the types of the running kernel. The caller closes them; offsets that were asked for stay valid.
func OpenBTF(fs FS) (*BTF, error) {
	path := filepath.Join(fs.Sys, "kernel/btf/vmlinux")
	file, err := readMapped(path)
	if err != nil {
		return nil, fmt.Errorf("read kernel types: %w", err)
	}
	b := &BTF{file: file, at: []uint32{0}, found: make(map[string]uint32)}
	if err := b.findSections(); err != nil {
		return nil, errors.Join(fmt.Errorf("read kernel types %s: %w", path, err), b.Close())
	}
	return b, nil
}

// Close unmaps the file.
func (b *BTF) Close() error {
	if err := unix.Munmap(b.file); err != nil {
		return fmt.Errorf("unmap kernel types: %w", err)
	}
	return nil
}

// readMapped reads a file of some megabytes into memory that goes back to the kernel at once.
func readMapped(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the operation and the file
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	size := int(max(1, info.Size()))
	if memory, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_POPULATE); err == nil {
		return memory, nil // since Linux 6.16
	}
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("map memory for %s: %w", path, err)
	}
	for n := 0; n < len(memory); {
		read, err := f.Read(memory[n:])
		if err != nil {
			return nil, errors.Join(err, unix.Munmap(memory))
		}
		n += read
	}
	return memory, nil
}

// findSections finds the types and the strings.
func (b *BTF) findSections() error {
	order := binary.NativeEndian
	if len(b.file) < btfHeaderSize || order.Uint16(b.file) != btfMagic {
		return errBTF
	}
	word := func(at int) uint64 { return uint64(order.Uint32(b.file[at:])) }
	base, size := word(4), uint64(len(b.file))
	types, strings := base+word(8), base+word(16)
	if types+word(12) > size || strings+word(20) > size {
		return errBTF
	}
	b.types, b.strings = b.file[types:types+word(12)], b.file[strings:strings+word(20)]
	return nil
}

// place returns where the type with a number is, from 1 on; type 0 is void. Types have no table of contents. They are
// counted as far as a caller asks, because those of the scheduler are near the beginning.
func (b *BTF) place(id uint32) (at uint32, ok bool) {
	if id == 0 {
		return 0, false
	}
	mark := min((id-1)/btfStride, uint32(len(b.at)-1)) //nolint:gosec // at most one for each type
	at = b.at[mark]
	for n := mark * btfStride; ; n++ {
		next, ok := b.step(n, at)
		if !ok || n == id-1 {
			return at, ok
		}
		at = next
	}
}

// step returns where the type after the n-th is, which is at a place, and whether there is a whole one at that.
func (b *BTF) step(n, at uint32) (next uint32, ok bool) {
	rest := b.types[at:]
	if len(rest) == 0 {
		return 0, false
	}
	kind, follows := 0, math.MaxInt
	if len(rest) >= btfTypeSize {
		var entries int
		if kind, entries = b.info(at); kind > 0 && kind < len(btfFollows) {
			follows = btfTypeSize + 4*int(btfFollows[kind]) + 4*int(btfEntry[kind])*entries
		}
	}
	if len(rest) < follows {
		b.err = cmp.Or(b.err, fmt.Errorf("kernel type %d of kind %d: %w", n+1, kind, errBTF))
		return 0, false
	}
	if n == uint32(len(b.at))*btfStride { //nolint:gosec // as above
		b.at = append(b.at, at)
	}
	return at + uint32(follows), true //nolint:gosec // within types
}

// What follows the beginning of a type, in words, by its kind: of all of a kind, and for each of its entries. The first
// kind, 0, and those after the last do not exist.
const (
	btfFollows = "\x00\x01\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x01\x00\x00"
	btfEntry   = "\x00\x00\x00\x00\x03\x03\x02\x00\x00\x00\x00\x00\x00\x02\x00\x03\x00\x00\x00\x03"
)

func (b *BTF) word(at uint32) uint32 { return binary.NativeEndian.Uint32(b.types[at:]) }

func (b *BTF) info(at uint32) (kind, entries int) {
	info := b.word(at + 4)
	return int(info >> 24 & 0x1f), int(info & 0xffff)
}

// is reports whether the string at an offset is name.
func (b *BTF) is(offset uint32, name string) bool {
	rest := b.strings[min(int(offset), len(b.strings)):]
	return len(rest) > len(name) && rest[len(name)] == 0 && string(rest[:len(name)]) == name
}

// find returns where a type of a kind and name is.
func (b *BTF) find(kind int, name string) (at uint32, ok bool) {
	for n := uint32(0); ; n++ {
		next, ok := b.step(n, at)
		if !ok {
			return 0, false
		}
		if k, _ := b.info(at); k == kind && b.is(b.word(at), name) {
			return at, true
		}
		at = next
	}
}

// byID returns where the type with a number is, without typedefs and qualifiers around it.
func (b *BTF) byID(id uint32) (at uint32, ok bool) {
	for range 32 {
		if at, ok = b.place(id); !ok {
			return 0, false
		}
		switch kind, _ := b.info(at); kind {
		case btfTypedef, btfVolatile, btfConst, btfTypeTag:
			id = b.word(at + 8)
		default:
			return at, true
		}
	}
	return 0, false
}

// Offset returns where in a struct the first of the named fields is that it has, in bytes. Err reports if it has none.
func (b *BTF) Offset(structure string, fields ...string) int32 {
	offset, ok := b.OptionalOffset(structure, fields...)
	if !ok && b.err == nil {
		b.err = fmt.Errorf("this kernel has no field %s.%s", structure, fields[0])
	}
	return offset
}

// Err returns the first error of Offset, or of the file.
func (b *BTF) Err() error { return b.err }

// OptionalOffset is Offset for fields that depend on how the kernel was built.
func (b *BTF) OptionalOffset(structure string, fields ...string) (offset int32, ok bool) {
	at, ok := b.found[structure]
	if !ok {
		if at, ok = b.find(btfStruct, structure); !ok {
			return 0, false
		}
		b.found[structure] = at
	}
	for _, field := range fields {
		if bits, ok := b.member(at, field); ok {
			return int32(bits / 8), true //nolint:gosec // no struct is that large
		}
	}
	return 0, false
}

// member returns the offset of a member in bits, which may be in a struct or union without a name.
func (b *BTF) member(at uint32, field string) (bits uint32, ok bool) {
	flagged := b.word(at+4)>>31 == 1 // then the size of a bit field is in the offset's upper byte
	_, entries := b.info(at)
	for i := range uint32(entries) { //nolint:gosec // 16 bits
		m := at + btfTypeSize + 12*i
		offset := b.word(m + 8)
		if flagged {
			offset &= 0xffffff
		}
		if name := b.word(m); !b.is(name, "") {
			if b.is(name, field) {
				return offset, true
			}
			continue
		}
		inner, found := b.byID(b.word(m + 4))
		if !found {
			continue
		}
		if kind, _ := b.info(inner); kind == btfStruct || kind == btfUnion {
			if more, found := b.member(inner, field); found {
				return offset + more, true
			}
		}
	}
	return 0, false
}

// TracepointArguments returns whether each argument of a tracepoint is an integer, in their order; nil if they are not
// known.
func (b *BTF) TracepointArguments(tracepoint string) (integers []bool) {
	at, ok := b.find(btfTypedef, "btf_trace_"+tracepoint)
	if ok {
		at, ok = b.byID(b.word(at + 8))
	}
	if kind, _ := b.info(at); !ok || kind != btfPointer {
		return nil
	}
	at, ok = b.byID(b.word(at + 8))
	kind, entries := b.info(at)
	if !ok || kind != btfFuncProto {
		return nil
	}
	for i := 1; i < entries; i++ { // the first is the tracepoint's own
		argument, ok := b.byID(b.word(at + btfTypeSize + 8*uint32(i) + 4)) //nolint:gosec // 16 bits
		kind, _ := b.info(argument)
		integers = append(integers, ok && kind == btfInt)
	}
	return integers
}
