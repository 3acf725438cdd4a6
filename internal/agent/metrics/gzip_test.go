// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/internal/testkit"
)

// FuzzZipper writes pages that differ in some families, with one Zipper, and holds that each is what the format writes.
// A byte changes one family: its upper half says which, its lower half how many samples it has; 15 changes a value.
func FuzzZipper(f *testing.F) {
	f.Add([]byte{0x13, 0x2e, 0x33, 0x1f, 0x00, 0x3f}, true)
	f.Add([]byte{0x00}, false)
	f.Fuzz(func(t *testing.T, changes []byte, open bool) {
		var z zipper
		families := make([]exposition.Family, 16)
		for i := range families {
			families[i].Name, families[i].Help, families[i].Type = fmt.Sprintf("f%d_total", i), `A "help".`, exposition.Counter
		}
		labels := []*exposition.Labels{exposition.NewLabels(), exposition.NewLabels("task", "a"), exposition.NewLabels("task", "b")}
		for i, change := range changes[:min(len(changes), 64)] {
			family := &families[change>>4]
			if change &= 15; change < 15 {
				family.Samples = family.Samples[:0]
				for n := range int(change) * int(change) {
					family.Add(labels[n%len(labels)], float64(n))
				}
			} else if n := len(family.Samples); n > 0 {
				family.Samples[n-1].Value++ // in place: the Zipper has a copy
			}
			format := exposition.Text
			if open != (i%8 == 7) {
				format = exposition.OpenMetrics
			}
			var text, zipped bytes.Buffer
			testkit.Must(t, errors.Join(format.Write(&text, families), z.write(&zipped, families, format)))
			reader := testkit.Value(gzip.NewReader(&zipped))(t)
			reader.Multistream(false)
			read := testkit.Value(io.ReadAll(reader))(t) // which checks the CRC and the length
			if !bytes.Equal(read, text.Bytes()) || zipped.Len() != 0 {
				t.Fatalf("page %d has %d bytes, want %d; %d bytes follow", i, len(read), text.Len(), zipped.Len())
			}
		}
	})
}
