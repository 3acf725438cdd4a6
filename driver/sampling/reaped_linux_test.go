// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
)

// TestReapedIsWhole receives all that an executor says of reaped children.
func TestReapedIsWhole(t *testing.T) {
	m := (&proto.Reaped{}).ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); f.Kind() {
		case protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		default:
			m.Set(f, protoreflect.ValueOfInt64(int64(f.Number())))
		}
	}
	message, _ := m.Interface().(*proto.Reaped)
	var p reaped
	p.set(message, procstats.Stamp{Mono: time.Hour})
	own := []string{"User", "System"} // the executor's, for the end
	got := reflect.ValueOf(p.get())
	for i := range got.NumField() {
		if name := got.Type().Field(i).Name; got.Field(i).IsZero() && !slices.Contains(own, name) {
			t.Errorf("%s is not received", name)
		}
	}
}
