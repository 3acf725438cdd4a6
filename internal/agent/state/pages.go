// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"os"
	"sync"

	bolt "go.etcd.io/bbolt"
)

// The format of a bbolt database, version 2 (bbolt's internal/common: meta.go, page.go, inode.go, bucket.go). Numbers
// have the byte order of the machine.
type (
	metaPage struct {
		Magic, Version, PageSize, Flags uint32
		Root, Sequence                  uint64
		Freelist, Pages, Txid, Checksum uint64
	}
	pageHeader struct {
		ID           uint64
		Flags, Count uint16
		Overflow     uint32
	}
	leafElement struct {
		Flags, Pos, KeySize, ValueSize uint32
	}
	branchElement struct {
		Pos, KeySize uint32
		Page         uint64
	}
)

const (
	flagBranch, flagLeaf, flagFreelist = 0x01, 0x02, 0x10
	flagBucket                         = 0x01 // of a leaf element
	headerSize, elementSize            = 16, 16
	bucketHeaderSize                   = 16
)

// verify reads all of a database. bbolt uses what it finds in a damaged one as addresses, which could end the process
// or corrupt its memory; so all addresses are checked before bbolt is told to follow them. stale says why the newest
// transaction may be lost.
func verify(path string) (stale, err error) {
	db, err := openBolt(path, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bolt.Tx) (err error) {
		if stale, err = checkPages(path, db.Info().PageSize); err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
		for fault := range tx.Check() {
			err = errors.Join(err, fmt.Errorf("%w: %w", errDamaged, fault))
		}
		return err
	})
	return stale, err
}

// pages are those of the newest transaction.
type pages struct {
	file     io.ReaderAt
	pageSize uint64
	count    uint64
	seen     map[uint64]bool
}

// checkPages follows all references between pages: each is used once, and what is on it does not leave it.
func checkPages(path string, pageSize int) (stale, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // was only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	p := &pages{file: file, pageSize: uint64(pageSize), seen: map[uint64]bool{0: true, 1: true}} //nolint:gosec // positive
	newest, stale, err := p.newest()
	if err != nil {
		return nil, err
	}
	if p.count = newest.Pages; p.count > uint64(info.Size())/p.pageSize { //nolint:gosec // a file's size
		return nil, fmt.Errorf("%d pages in a file of %d bytes", p.count, info.Size())
	}
	return stale, errors.Join(p.tree(newest.Root), p.free(newest.Freelist))
}

// newest returns the meta page that bbolt uses: the later of two, if both are whole.
func (p *pages) newest() (newest *metaPage, stale, err error) {
	for i := range uint64(2) {
		b := make([]byte, headerSize+binary.Size(metaPage{}))
		if _, err := p.file.ReadAt(b, int64(i*p.pageSize)); err != nil { //nolint:gosec // 0 or one page
			return nil, nil, err
		}
		m, text := new(metaPage), b[headerSize:]
		if err := decode(text, m); err != nil {
			return nil, nil, err
		}
		sum := fnv.New64a()
		_, _ = sum.Write(text[:len(text)-8]) // never fails
		whole := m.Checksum == sum.Sum64()
		if whole && (newest == nil || m.Txid > newest.Txid) {
			newest = m
		}
		if !whole || m.Txid%2 != i { // the transactions write them in turns
			stale = fmt.Errorf("meta page %d is damaged: what it had last may be lost", i)
		}
	}
	if newest == nil {
		return nil, nil, errors.New("no meta page is whole")
	}
	return newest, stale, nil
}

// read returns a page with those that continue it.
func (p *pages) read(id uint64) (pageHeader, []byte, error) {
	var h pageHeader
	first := make([]byte, headerSize)
	if id >= p.count {
		return h, nil, fmt.Errorf("page %d of %d", id, p.count)
	}
	if _, err := p.file.ReadAt(first, int64(id*p.pageSize)); err != nil { //nolint:gosec // inside the file
		return h, nil, err
	}
	if err := decode(first, &h); err != nil {
		return h, nil, err
	}
	n := uint64(h.Overflow) + 1
	if h.ID != id || n > p.count-id {
		return h, nil, fmt.Errorf("page %d says that it is %d and has %d pages", id, h.ID, n)
	}
	for i := range n {
		if err := p.use(id + i); err != nil {
			return h, nil, err
		}
	}
	b := make([]byte, n*p.pageSize)
	_, err := p.file.ReadAt(b, int64(id*p.pageSize)) //nolint:gosec // inside the file
	return h, b, err
}

func (p *pages) use(id uint64) error {
	if p.seen[id] || id >= p.count {
		return fmt.Errorf("page %d of %d is used twice, or does not exist", id, p.count)
	}
	p.seen[id] = true
	return nil
}

// tree checks a page and all below it.
func (p *pages) tree(id uint64) error {
	h, page, err := p.read(id)
	if err != nil {
		return err
	}
	if err := p.elements(h, page); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func (p *pages) elements(h pageHeader, page []byte) error {
	if h.Flags != flagBranch && h.Flags != flagLeaf {
		return fmt.Errorf("flags %#x", h.Flags)
	}
	for at := headerSize; at < headerSize+int(h.Count)*elementSize; at += elementSize {
		if at+elementSize > len(page) {
			return fmt.Errorf("%d elements", h.Count)
		}
		if err := p.element(h.Flags, page[at:]); err != nil {
			return err
		}
	}
	return nil
}

// element checks the one that rest begins with. Its key and value are in rest too.
func (p *pages) element(flags uint16, rest []byte) error {
	if flags == flagBranch {
		var e branchElement
		if err := decode(rest, &e); err != nil {
			return err
		}
		if uint64(e.Pos)+uint64(e.KeySize) > uint64(len(rest)) {
			return fmt.Errorf("key of %d bytes at %d", e.KeySize, e.Pos)
		}
		return p.tree(e.Page)
	}
	var leaf leafElement
	if err := decode(rest, &leaf); err != nil {
		return err
	}
	value := uint64(leaf.Pos) + uint64(leaf.KeySize)
	end := value + uint64(leaf.ValueSize)
	if end > uint64(len(rest)) {
		return fmt.Errorf("key and value of %d and %d bytes at %d", leaf.KeySize, leaf.ValueSize, leaf.Pos)
	}
	if leaf.Flags&flagBucket != 0 {
		return p.bucket(rest[value:end])
	}
	return nil
}

// bucket checks one of its own pages, or one whose only page is in its value.
func (p *pages) bucket(value []byte) error {
	if len(value) < bucketHeaderSize {
		return fmt.Errorf("bucket of %d bytes", len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return p.tree(root)
	}
	var h pageHeader
	page := value[bucketHeaderSize:]
	if err := decode(page, &h); err != nil {
		return err
	}
	return p.elements(h, page)
}

// free checks the list of pages that nothing uses.
func (p *pages) free(id uint64) error {
	h, page, err := p.read(id)
	if err != nil {
		return err
	}
	ids, n := page[headerSize:], uint64(h.Count)
	if h.Count == 0xFFFF { // the number is in front of them
		n, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if h.Flags != flagFreelist || n > uint64(len(ids)/8) {
		return fmt.Errorf("page %d: flags %#x and %d free pages", id, h.Flags, n)
	}
	for i := range n {
		if err := p.use(binary.NativeEndian.Uint64(ids[i*8:])); err != nil {
			return err
		}
	}
	return nil
}

func decode(b []byte, into any) error {
	_, err := binary.Decode(b, binary.NativeEndian, into)
	return err
}

// A record is a JSON object whose last member is its checksum.
const (
	checksumBegin = `"Checksum":"`
	checksumEnd   = `"}`
	checksumSize  = len(checksumBegin) + 8 + len(checksumEnd)
)

// castagnoli is made where it is used: every start of the program, also those of executors, would pay for it.
//
//nolint:gochecknoglobals // constant
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// checksum returns the checksum of a value and of its key.
func checksum(bucket, key string, text []byte) uint32 {
	sum := crc32.Checksum([]byte(bucket+"\x00"+key+"\x00"), castagnoli())
	return crc32.Update(sum, castagnoli(), text)
}

// withChecksum returns a JSON object with its checksum.
func withChecksum(bucket, key string, text []byte) []byte {
	body := append(make([]byte, 0, len(text)+checksumSize), text[:len(text)-1]...)
	if len(text) > len("{}") {
		body = append(body, ',')
	}
	return fmt.Appendf(body, "%s%08x%s", checksumBegin, checksum(bucket, key, body), checksumEnd)
}

// verifyChecksum compares a record with its checksum.
func verifyChecksum(bucket, key string, value []byte) error {
	at := len(value) - checksumSize
	if at < 1 {
		return errors.New("no checksum")
	}
	found := string(value[at:])
	if want := fmt.Sprintf("%s%08x%s", checksumBegin, checksum(bucket, key, value[:at]), checksumEnd); found != want {
		return fmt.Errorf("checksum %s, want %s", found, want)
	}
	return nil
}
