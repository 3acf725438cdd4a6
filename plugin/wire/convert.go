// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"cmp"
	"go/token"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// counterpart returns the name, in lower case, under which a field is found on both sides. Fields of package driver
// have the names that they have on the wire, whatever the case, but for these.
func counterpart(field string) string {
	field = strings.ToLower(field)
	return cmp.Or(map[string]string{
		"exitcode": "code", "result": "exit",
		"msgpackdriverconfig":  "driverconfig",
		"networkisolationspec": "network",
		"linuxresources":       "linux",
	}[field], field)
}

// Convert returns a value of one side made from one of the other, in either direction; nil of nil. Fields without a
// counterpart stay zero. Maps, bytes and lists of the same type are shared.
func Convert[To, From any](from *From) *To {
	if from == nil {
		return nil
	}
	to := new(To)
	assignFields(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
	return to
}

// assign converts a value into the type of to, which is zero.
func assign(to, from reflect.Value) {
	switch value := from.Interface().(type) {
	case time.Time:
		to.Set(reflect.ValueOf(fromTime(value)))
		return
	case *timestamppb.Timestamp:
		to.Set(reflect.ValueOf(toTime(value)))
		return
	case nil:
		return
	}
	switch {
	case to.Type() == from.Type():
		to.Set(from)
	case from.Kind() == reflect.Pointer:
		if !from.IsNil() {
			assign(to, from.Elem())
		}
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		assign(to.Elem(), from)
	case from.Kind() == reflect.Slice:
		assignList(to, from)
	case from.CanInt():
		to.SetInt(from.Int())
	default:
		assignFields(to, from)
	}
}

func assignList(to, from reflect.Value) {
	if from.Len() == 0 {
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
	for i := range from.Len() {
		assign(to.Index(i), from.Index(i))
	}
}

func assignFields(to, from reflect.Value) {
	for field, value := range to.Fields() {
		name := counterpart(field.Name)
		other := from.FieldByNameFunc(func(n string) bool { return token.IsExported(n) && counterpart(n) == name })
		if field.IsExported() && other.IsValid() {
			assign(value, other)
		}
	}
}

// fromTime sends the zero time as no message at all: a time.Time in year 1 is not a moment.
func fromTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func toTime(m *timestamppb.Timestamp) time.Time {
	if m == nil {
		return time.Time{}
	}
	return m.AsTime()
}
