// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package proto_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
)

const golden = "testdata/wire.golden"

var update = flag.Bool("update", false, "write "+golden+" anew")

// TestWireGolden holds what old executors and new drivers understand of each other. A line that is added is a field
// that is added; a line that changes or goes breaks those that are running.
func TestWireGolden(t *testing.T) {
	got := describe(proto.File_executor_proto_executor_proto)
	if *update {
		testkit.Must(t, os.WriteFile(golden, []byte(strings.Join(got, "\n")+"\n"), 0o644))
	}
	text := testkit.Value(os.ReadFile(golden))(t)
	if d := cmp.Diff(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), got); d != "" {
		t.Errorf("the generated code and %s differ (-golden +generated):\n%s", golden, d)
	}
}

// describe lists all that the wire has, one line each, sorted.
func describe(file protoreflect.FileDescriptor) []string {
	var lines []string
	for i := range file.Services().Len() {
		service := file.Services().Get(i)
		for j := range service.Methods().Len() {
			m := service.Methods().Get(j)
			lines = append(lines, fmt.Sprintf("rpc /%s/%s: %s%s -> %s%s", service.FullName(), m.Name(),
				only(m.IsStreamingClient(), "stream "), m.Input().FullName(),
				only(m.IsStreamingServer(), "stream "), m.Output().FullName()))
		}
	}
	lines = append(lines, enums(file.Enums())...)
	lines = append(lines, messages(file.Messages())...)
	slices.Sort(lines)
	return lines
}

func enums(list protoreflect.EnumDescriptors) (lines []string) {
	for i := range list.Len() {
		for j := range list.Get(i).Values().Len() {
			value := list.Get(i).Values().Get(j)
			lines = append(lines, fmt.Sprintf("enum %s.%s = %d", list.Get(i).FullName(), value.Name(), value.Number()))
		}
	}
	return lines
}

func messages(list protoreflect.MessageDescriptors) (lines []string) {
	for i := range list.Len() {
		m := list.Get(i)
		if m.IsMapEntry() {
			continue
		}
		lines = append(lines, "message "+string(m.FullName()))
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			lines = append(lines, fmt.Sprintf("field %s %s = %d", f.FullName(), kind(f), f.Number()))
		}
		for j := range m.ReservedRanges().Len() {
			r := m.ReservedRanges().Get(j) // its end is not part of it
			lines = append(lines, fmt.Sprintf("reserved %s %d to %d", m.FullName(), r[0], r[1]-1))
		}
		lines = append(lines, enums(m.Enums())...)
		lines = append(lines, messages(m.Messages())...)
	}
	return lines
}

// kind is a field's type as a .proto file has it.
func kind(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return fmt.Sprintf("map<%s, %s>", singular(f.MapKey()), singular(f.MapValue()))
	case isOptional(f):
		return "optional " + singular(f)
	case f.ContainingOneof() != nil:
		return fmt.Sprintf("oneof %s %s", f.ContainingOneof().Name(), singular(f))
	}
	return only(f.IsList(), "repeated ") + singular(f)
}

func singular(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return string(f.Message().FullName())
	case f.Enum() != nil:
		return string(f.Enum().FullName())
	}
	return f.Kind().String()
}

func only(yes bool, text string) string {
	if yes {
		return text
	}
	return ""
}

// isOptional reports whether a number or text that is 0 or empty is told from one that is not there.
func isOptional(f protoreflect.FieldDescriptor) bool {
	return f.HasPresence() && f.Message() == nil && f.ContainingOneof() == nil
}
