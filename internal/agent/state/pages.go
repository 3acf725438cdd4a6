// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
)

// The layout of bbolt's files, in the byte order of the machine: pages of one size, of which the first two say where the
// tree and the list of free pages begin, the older of the two before the last transaction.
const (
	pageHeader  = 16 // id, flags, count, overflow
	elementSize = 16
	bucketValue = 16 // root, sequence
	metaSize    = 56 // before its checksum
	pageMagic   = 0xED0CDAED
	pageVersion = 2

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10
	flagBucket   = 0x01 // of a leaf's element

	// deepest bounds the tree, which has a hundred pages below each page or so.
	deepest = 32
)

// order is the byte order of the file: bbolt writes that of the machine.
//
//nolint:gochecknoglobals // constant
var order = binary.NativeEndian

// pages reads a database file without trusting it: bbolt takes what it finds in a damaged one for addresses, and neither
// a fault of memory nor an endless recursion can be survived.
type pages struct {
	file io.ReaderAt
	size int64
	// visit is called for each key of a bucket; it must not keep the slices.
	visit func(bucket string, key, value []byte)

	pageSize, count uint64
	used            map[uint64]bool
	buckets         []string
	faults          []error
}

// checkPages visits all that can be read, and returns what is wrong with the file; nothing if bbolt can be trusted with it.
func checkPages(file io.ReaderAt, size int64, visit func(bucket string, key, value []byte)) []error {
	p := &pages{file: file, size: size, visit: visit, used: make(map[uint64]bool)}
	root, freelist, err := p.meta()
	if err != nil {
		return append(p.faults, err)
	}
	p.tree("", root, nil, nil, 0)
	p.fault(p.checkNames())
	if len(p.faults) == 0 {
		p.fault(p.free(freelist))
	}
	return p.faults
}

// checkNames reports a bucket that is missing while there is one with an unknown name: an earlier version may have fewer
// buckets, and a later one more.
func (p *pages) checkNames() error {
	unknown := slices.IndexFunc(p.buckets, func(name string) bool { return !slices.Contains(bucketNames(), name) })
	missing := slices.IndexFunc(bucketNames(), func(name string) bool { return !slices.Contains(p.buckets, name) })
	if unknown < 0 || missing < 0 {
		return nil
	}
	return fmt.Errorf("bucket %s is missing, and %q is unknown", bucketNames()[missing], p.buckets[unknown])
}

func (p *pages) fault(err error) {
	if err != nil {
		p.faults = append(p.faults, err)
	}
}

// meta reads the newer of the first two pages that is whole.
func (p *pages) meta() (root, freelist uint64, err error) {
	var newest []byte
	// The page size is that of the machine that made the file; it stands in the page.
	for id, at := range p.metaPlaces() {
		b := make([]byte, pageHeader+metaSize+8)
		if _, err := p.file.ReadAt(b, at); err != nil {
			p.fault(fmt.Errorf("read meta page at %d: %w", at, err))
			continue
		}
		if order.Uint64(b) != uint64(id) { // an older copy of the other
			p.fault(fmt.Errorf("meta page at %d: header is damaged", at))
			continue
		}
		b = b[pageHeader:]
		sum := fnv.New64a()
		_, _ = sum.Write(b[:metaSize]) // never fails
		if order.Uint32(b) != pageMagic || order.Uint32(b[4:]) != pageVersion || order.Uint64(b[metaSize:]) != sum.Sum64() {
			p.fault(fmt.Errorf("meta page at %d: checksum differs", at))
			continue
		}
		if newest == nil || order.Uint64(b[48:]) > order.Uint64(newest[48:]) {
			newest = b
		}
	}
	if newest == nil {
		return 0, 0, errors.New("no meta page is whole")
	}
	p.pageSize, p.count = uint64(order.Uint32(newest[8:])), order.Uint64(newest[40:])
	if p.pageSize < 512 || p.pageSize > 1<<20 || p.count > uint64(p.size)/p.pageSize {
		return 0, 0, fmt.Errorf("%d pages of %d bytes in a file of %d", p.count, p.pageSize, p.size)
	}
	return order.Uint64(newest[16:]), order.Uint64(newest[32:]), nil
}

// metaPlaces are where the first two pages are.
func (p *pages) metaPlaces() []int64 {
	const usual = 4096
	for size := int64(512); size <= 1<<16; size *= 2 {
		b := make([]byte, 4)
		for _, at := range []int64{0, size} {
			if _, err := p.file.ReadAt(b, at+pageHeader+8); err == nil && int64(order.Uint32(b)) == size {
				return []int64{0, size}
			}
		}
	}
	return []int64{0, usual}
}

// page reads a page with what it overflows into, once.
func (p *pages) page(id uint64, flags uint16) ([]byte, error) {
	if id < 2 || id >= p.count {
		return nil, fmt.Errorf("page %d: there are %d", id, p.count)
	}
	head := make([]byte, pageHeader)
	if _, err := p.file.ReadAt(head, int64(id*p.pageSize)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	overflow := uint64(order.Uint32(head[12:]))
	if order.Uint64(head) != id || order.Uint16(head[8:])&flags == 0 || id+overflow >= p.count {
		return nil, fmt.Errorf("page %d: header is damaged", id)
	}
	for n := id; n <= id+overflow; n++ {
		if p.used[n] {
			return nil, fmt.Errorf("page %d: used twice", n)
		}
		p.used[n] = true
	}
	b := make([]byte, (overflow+1)*p.pageSize)
	if _, err := p.file.ReadAt(b, int64(id*p.pageSize)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return b, nil
}

// tree visits what is below a page; all keys are from low, and below high unless that is nil.
func (p *pages) tree(bucket string, id uint64, low, high []byte, depth int) {
	b, err := p.page(id, flagBranch|flagLeaf)
	if err == nil && depth > deepest {
		err = fmt.Errorf("page %d: %d levels", id, depth)
	}
	if err != nil {
		p.fault(err)
		return
	}
	p.elements(bucket, id, b, low, high, depth)
}

// elements visits those of a page.
func (p *pages) elements(bucket string, id uint64, b, low, high []byte, depth int) {
	leaf := order.Uint16(b[8:]) == flagLeaf
	if !leaf && order.Uint16(b[8:]) != flagBranch {
		p.fault(fmt.Errorf("page %d: header is damaged", id))
		return
	}
	type child struct {
		key  []byte
		page uint64
	}
	var children []child
	last, count := low, int(order.Uint16(b[10:]))
	end := pageHeader + count*elementSize // where the data begins, without gaps
	for i := range count {
		at := pageHeader + i*elementSize
		flags, key, value, ok := element(b, at, end, leaf)
		end += len(key) + len(value)
		if !ok {
			p.fault(fmt.Errorf("page %d: element %d is damaged", id, i))
			return // the others are as likely to be
		}
		if bytes.Compare(key, last) < 0 || i > 0 && bytes.Equal(key, last) || high != nil && bytes.Compare(key, high) >= 0 {
			p.fault(fmt.Errorf("page %d: key %d is out of order", id, i))
		}
		last = key
		switch {
		case !leaf:
			children = append(children, child{key, order.Uint64(b[at+8:])})
		case flags&flagBucket != 0:
			p.bucket(bucket, id, key, value)
		case bucket == "":
			p.fault(fmt.Errorf("page %d: key %d is in no bucket", id, i))
		default:
			p.visit(bucket, key, value)
		}
	}
	if inline := id == 0; count == 0 && !inline || inline && end != len(b) {
		p.fault(fmt.Errorf("page %d: %d elements", id, count))
	}
	for i, c := range children {
		next := high
		if i+1 < len(children) {
			next = children[i+1].key
		}
		p.tree(bucket, c.page, c.key, next, depth+1)
	}
}

// element returns the key and the value of an element, which begin at a place; a branch's has no value.
func element(b []byte, at, place int, leaf bool) (flags uint32, key, value []byte, ok bool) {
	if at+elementSize > len(b) {
		return 0, nil, nil, false
	}
	e := b[at:]
	pos, keySize, valueSize := uint64(order.Uint32(e)), uint64(order.Uint32(e[4:])), uint64(0)
	if leaf {
		flags, pos = order.Uint32(e), uint64(order.Uint32(e[4:]))
		keySize, valueSize = uint64(order.Uint32(e[8:])), uint64(order.Uint32(e[12:]))
	}
	begin := uint64(at) + pos
	if begin != uint64(place) || begin+keySize+valueSize > uint64(len(b)) {
		return 0, nil, nil, false
	}
	return flags, b[begin : begin+keySize], b[begin+keySize : begin+keySize+valueSize], true
}

// bucket visits what is in a bucket, which is on pages of its own or, if small, in its value.
func (p *pages) bucket(within string, id uint64, name, value []byte) {
	p.buckets = append(p.buckets, string(name))
	switch {
	case within != "" || len(value) < bucketValue:
		p.fault(fmt.Errorf("page %d: bucket %q is damaged", id, name))
	case order.Uint64(value) != 0:
		p.tree(string(name), order.Uint64(value), nil, nil, 1)
	case len(value) < bucketValue+pageHeader || order.Uint16(value[bucketValue+8:]) != flagLeaf:
		p.fault(fmt.Errorf("page %d: bucket %q is damaged", id, name))
	default:
		p.elements(string(name), 0, value[bucketValue:], nil, nil, 1)
	}
}

// free compares the list of free pages with those that are not used: each page is one or the other.
func (p *pages) free(id uint64) error {
	b, err := p.page(id, flagFreelist)
	if err != nil {
		return fmt.Errorf("free pages: %w", err)
	}
	count, list := uint64(order.Uint16(b[10:])), b[pageHeader:]
	if count == 0xFFFF {
		count, list = order.Uint64(list), list[8:]
	}
	if count > uint64(len(list))/8 {
		return fmt.Errorf("free pages: %d on page %d", count, id)
	}
	free := make([]uint64, count)
	for i := range free {
		free[i] = order.Uint64(list[8*i:])
	}
	if !slices.IsSorted(free) {
		return errors.New("free pages: out of order")
	}
	for _, n := range free {
		if n < 2 || n >= p.count || p.used[n] {
			return fmt.Errorf("free pages: page %d is in use", n)
		}
		p.used[n] = true
	}
	if missing := p.count - 2 - uint64(len(p.used)); missing > 0 {
		return fmt.Errorf("free pages: %d pages are neither used nor free", missing)
	}
	return nil
}
