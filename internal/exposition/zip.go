// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exposition

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/bits"
	"sync"
)

// Zip compresses a page as gzip, RFC 1952 and 1951. A line is mostly like the one before it: nothing else is searched,
// and the codes are made for digits and the ids of allocations. That takes a fraction of the time of compress/gzip.
type Zip struct {
	out    io.Writer
	buffer []byte
	// pending are the last bits, so many, that are not in the buffer yet.
	pending uint64
	bits    int
	// last is the line before, in memory of kept between two writes.
	last, kept []byte
	crc, size  uint32
}

const (
	// shortest and longest bound a match, and window its distance.
	shortest, longest, window = 3, 258, 32 << 10
	// gzipHead says: deflate, no name, no time, fastest, from an unknown system.
	gzipHead = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
)

// Reset begins a page.
func (z *Zip) Reset(out io.Writer) {
	*z = Zip{out: out, buffer: append(z.buffer[:0], gzipHead...), kept: z.kept}
	z.begin()
}

// Write compresses lines.
func (z *Zip) Write(page []byte) (int, error) {
	z.crc = crc32.Update(z.crc, crc32.IEEETable, page)
	z.size += uint32(len(page)) //nolint:gosec // modulo 2^32, as the format has it
	for rest := page; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		z.line(rest[:end])
		z.last, rest = rest[:end], rest[end:]
	}
	z.kept = append(z.kept[:0], z.last...)
	z.last = z.kept
	return len(page), z.flush()
}

// Close ends the page.
func (z *Zip) Close() error {
	z.putCode(zipCodes().symbols[256])
	z.put(0, -z.bits&0b111) // to the next byte
	for ; z.bits > 0; z.bits -= 8 {
		z.buffer = append(z.buffer, byte(z.pending))
		z.pending >>= 8
	}
	z.buffer = binary.LittleEndian.AppendUint32(z.buffer, z.crc)
	z.buffer = binary.LittleEndian.AppendUint32(z.buffer, z.size)
	return z.flush()
}

func (z *Zip) flush() error {
	_, err := z.out.Write(z.buffer)
	z.buffer = z.buffer[:0]
	return err
}

// line compresses a line: what it shares with the one before, and after a difference from the next quote on.
func (z *Zip) line(line []byte) {
	for at, before := 0, 0; at < len(line); {
		n := shared(line[at:], z.last[before:])
		if distance := len(z.last) - before + at; n >= shortest && distance <= window {
			z.match(n, distance)
		} else {
			z.literals(line[at : at+n])
		}
		at, before = at+n, before+n
		next, other := bytes.IndexByte(line[at:], '"'), bytes.IndexByte(z.last[before:], '"')
		if next < 0 || other < 0 {
			next, other = len(line)-at, 0
		}
		z.literals(line[at : at+next])
		at, before = at+next, before+other
	}
}

// shared is how many bytes two texts begin with alike.
func shared(a, b []byte) (n int) {
	for ; n+8 <= len(a) && n+8 <= len(b); n += 8 {
		if differ := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); differ != 0 {
			return n + bits.TrailingZeros64(differ)/8
		}
	}
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func (z *Zip) literals(text []byte) {
	codes := zipCodes()
	for _, c := range text {
		z.putCode(codes.symbols[c])
	}
}

// match repeats n bytes from a distance before.
func (z *Zip) match(n, distance int) {
	for codes := zipCodes(); n > 0; {
		length := min(n, longest)
		if rest := n - length; rest > 0 && rest < shortest {
			length -= shortest
		}
		n -= length
		if more := length - shortest; length == longest {
			z.putCode(codes.symbols[285]) //nolint:mnd // it has a code of its own
		} else {
			extra := max(0, bits.Len(uint(more))-3)
			z.putCode(codes.symbols[257+4*extra+more>>extra]) //nolint:mnd // RFC 1951, 3.2.5, as below
			z.put(more&(1<<extra-1), extra)
		}
		extra := max(0, bits.Len(uint(distance-1))-2)
		z.putCode(codes.distances[2*extra+(distance-1)>>extra])
		z.put((distance-1)&(1<<extra-1), extra)
	}
}

// symbolBits is how long the code of a literal is, of the end, or of the length of a match, and distanceBits that of a
// distance. Each set of codes is complete, and has no other lengths than lengthBits has.
//
//nolint:mnd // a table of numbers
func symbolBits(s int) int {
	switch {
	case '0' <= s && s <= '9', 'a' <= s && s <= 'f':
		return 5
	case s > 256, s == '-', s == '.', s == '\n':
		return 7
	case 'g' <= s && s <= 'x':
		return 9
	}
	return 10
}

func distanceBits(s int) int {
	if s == 14 || s == 15 { // 129 to 256 bytes, as long as most lines
		return 4
	}
	return 5
}

// lengthBits are the lengths of the codes that lengths themselves are written with.
func lengthBits(s int) int { return [...]int{4: 3, 5: 3, 7: 3, 9: 3, 10: 1}[s] }

type zipCode struct{ code, bits int }

type zipTables struct{ symbols, distances, lengths []zipCode }

//nolint:gochecknoglobals,mnd // constant, made with the first use; RFC 1951, 3.2.7
var zipCodes = sync.OnceValue(func() *zipTables {
	return &zipTables{makeCodes(286, symbolBits), makeCodes(30, distanceBits), makeCodes(11, lengthBits)}
})

// makeCodes returns the codes of n symbols, RFC 1951, 3.2.2, with the first bit lowest.
func makeCodes(n int, length func(int) int) []zipCode {
	all, next := make([]zipCode, n), 0
	for size := 1; size < 16; size, next = size+1, 2*next {
		for s := range all {
			if length(s) == size {
				all[s] = zipCode{int(bits.Reverse16(uint16(next)) >> (16 - size)), size} //nolint:gosec // it is that small
				next++
			}
		}
	}
	return all
}

// begin puts the head of the last block with our codes: RFC 1951, 3.2.7.
//
//nolint:mnd // a table of numbers
func (z *Zip) begin() {
	codes := zipCodes()
	z.put(0b101|(286-257)<<3|(30-1)<<8|(12-4)<<13, 17)
	for _, s := range [...]int{0, 0, 0, 0, 8, 7, 9, 6, 10, 5, 0, 4} { // in that order of the format, with 0 for others
		z.put(lengthBits(s), 3)
	}
	for s := range codes.symbols {
		z.putCode(codes.lengths[codes.symbols[s].bits])
	}
	for s := range codes.distances {
		z.putCode(codes.lengths[codes.distances[s].bits])
	}
}

func (z *Zip) putCode(c zipCode) { z.put(c.code, c.bits) }

// put appends n bits, at most 32.
func (z *Zip) put(code, n int) {
	z.pending |= uint64(code) << z.bits //nolint:gosec // no code is negative
	if z.bits += n; z.bits >= 32 {
		z.buffer = binary.LittleEndian.AppendUint32(z.buffer, uint32(z.pending)) //nolint:gosec // the lower half
		z.pending, z.bits = z.pending>>32, z.bits-32
	}
}
