// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"

	"github.com/tachograph/tacho/internal/exposition"
)

const (
	// segmentSamples is the least number of samples of a segment but the last: 30 KB, as far as deflate refers back.
	segmentSamples = 256
	// mostWriters bounds the memory for compression: each writer has half a megabyte.
	mostWriters = 4
)

// zipper writes pages as gzip, RFC 1952. To compress a page of many tasks takes longer than to make it, and most of its
// numbers are those of the page before. So the deflate stream consists of segments that end at a byte and do not refer
// to each other. The zipper stores those of one page, and compresses on several CPUs what has changed in the next.
// The zero value is ready to use. write must not be called concurrently.
type zipper struct {
	format  exposition.Format
	page    []*segment
	writers [mostWriters]*flate.Writer
	zeros   [4 << 10]byte
}

// segment is the compressed text of some families.
type segment struct {
	families []exposition.Family
	samples  []exposition.Sample // copies of those on the page
	zipped   bytes.Buffer
	sum      uint32 // of the text
	size     int    // of the text in bytes
}

// write writes a page.
func (z *zipper) write(w io.Writer, families []exposition.Family, format exposition.Format) error {
	z.compress(families, format)
	end := format.End()
	out := bufio.NewWriterSize(w, exposition.Chunk) // its Flush returns the error of any write
	_, _ = out.WriteString("\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff")
	sum, size := uint32(0), len(end)
	for _, s := range z.page {
		_, _ = out.Write(s.zipped.Bytes())
		sum, size = z.joinSums(sum, s), size+s.size
	}
	_, _ = out.Write([]byte{1, byte(len(end)), 0, ^byte(len(end)), 255}) // the last block is stored
	_, _ = out.WriteString(end)
	trailer := binary.LittleEndian.AppendUint32(nil, crc32.Update(sum, crc32.IEEETable, []byte(end)))
	_, _ = out.Write(binary.LittleEndian.AppendUint32(trailer, uint32(size)))
	return out.Flush()
}

// joinSums returns the CRC of a text that has the CRC first and of a segment after it. A CRC is linear: the sum of the
// segment is XORed with what first becomes over as many zeros.
func (z *zipper) joinSums(first uint32, s *segment) uint32 {
	first = ^first
	for left := s.size; left > 0; left -= len(z.zeros) {
		first = crc32.Update(first, crc32.IEEETable, z.zeros[:min(left, len(z.zeros))])
	}
	return ^first ^ s.sum
}

// compress replaces the page before.
func (z *zipper) compress(families []exposition.Family, format exposition.Format) {
	before := z.page
	if z.format != format {
		before = nil
	}
	z.format, z.page = format, nil
	changed := make(chan *segment, len(families))
	for until := 0; len(families) > 0; families = families[until:] {
		until = 0
		for samples := 0; until < len(families) && samples < segmentSamples; until++ {
			samples += len(families[until].Samples)
		}
		s := &segment{}
		if at := len(z.page); at < len(before) {
			s = before[at]
		}
		if !slices.EqualFunc(s.families, families[:until], sameFamily) {
			s.families = slices.Clone(families[:until])
			changed <- s
		}
		z.page = append(z.page, s)
	}
	close(changed)
	z.compressAll(changed)
}

func sameFamily(a, b exposition.Family) bool {
	return a.Name == b.Name && a.Help == b.Help && a.Type == b.Type && slices.EqualFunc(a.Samples, b.Samples, sameSample)
}

func sameSample(a, b exposition.Sample) bool {
	return a.Labels == b.Labels && math.Float64bits(a.Value) == math.Float64bits(b.Value)
}

// compressAll compresses segments.
func (z *zipper) compressAll(changed <-chan *segment) {
	var running sync.WaitGroup
	for i := range min(len(changed), runtime.GOMAXPROCS(0), mostWriters) {
		running.Go(func() {
			if z.writers[i] == nil {
				z.writers[i], _ = flate.NewWriter(nil, flate.BestSpeed) // the level is valid
			}
			text := make([]byte, 0, 2*exposition.Chunk)
			for s := range changed {
				s.compress(z.writers[i], text, z.format)
			}
		})
	}
	running.Wait()
}

// compress compresses the segment, whose buffer takes everything.
func (s *segment) compress(deflate *flate.Writer, text []byte, format exposition.Format) {
	s.sum, s.size = 0, 0
	s.zipped.Reset()
	deflate.Reset(&s.zipped)
	out := io.MultiWriter(deflate, s)
	text, _ = format.Append(out, text, s.families)
	_, _ = out.Write(text)
	_ = deflate.Flush()
	s.samples = s.samples[:0]
	for i := range s.families {
		of := &s.families[i]
		s.samples = append(s.samples, of.Samples...)
		of.Samples = s.samples[len(s.samples)-len(of.Samples):]
	}
}

// Write adds text to the sum and the size.
func (s *segment) Write(text []byte) (int, error) {
	s.sum, s.size = crc32.Update(s.sum, crc32.IEEETable, text), s.size+len(text)
	return len(text), nil
}
