// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// TestReapedIsWhole sends all that is known of reaped children: a field that is left out would read as 0 elsewhere.
func TestReapedIsWhole(t *testing.T) {
	m := fromReaped(source.Reaped{
		CPU: 1, MaxRSS: 2, PeakRSS: 3, Minflt: 4, Majflt: 5, Nvcsw: 6, Nivcsw: 7, Inblock: 8, Oublock: 9,
		IO:       kernel.ProcIO{Rchar: 10, Wchar: 11, ReadBytes: 12, WriteBytes: 13, CancelledWriteBytes: 14},
		IOMissed: 15, Outside: 16, Watched: true, Processes: 17,
	}).ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); !m.Has(f) {
			t.Errorf("%s is not sent", f.Name())
		}
	}
	seen := make(map[int64]protoreflect.Name)
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Kind() == protoreflect.Int64Kind {
			if other, twice := seen[v.Int()]; twice {
				t.Errorf("%s has the value of %s", f.Name(), other)
			}
			seen[v.Int()] = f.Name()
		}
		return true
	})
}
