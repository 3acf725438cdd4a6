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

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/proto/hclspec"
	"github.com/tachograph/tacho/plugin/proto/structs"
)

var update = flag.Bool("update", false, "write the goldens anew")

// hostFiles are all .proto files of the hosts' wire.
func hostFiles() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		base.File_plugin_proto_base_base_proto,
		drivers.File_plugin_proto_drivers_driver_proto,
		drivers.File_plugin_proto_drivers_stats_proto,
		drivers.File_plugin_proto_drivers_task_proto,
		hclspec.File_plugin_proto_hclspec_hclspec_proto,
		structs.File_plugin_proto_structs_attribute_proto,
		structs.File_plugin_proto_structs_recoverable_error_proto,
	}
}

// TestWireGolden holds what hosts and drivers, and what old executors and new drivers, understand of each other. A line
// that is added is a field that is added; a line that changes or goes breaks those that are running.
func TestWireGolden(t *testing.T) {
	for golden, files := range map[string][]protoreflect.FileDescriptor{
		"testdata/wire.golden":                      hostFiles(),
		"../../executor/proto/testdata/wire.golden": {proto.File_executor_proto_executor_proto},
	} {
		var got []string
		for _, f := range files {
			got = appendServices(got, f.Services())
			got = appendEnums(got, f.Enums())
			got = appendMessages(got, f.Messages())
		}
		slices.Sort(got)
		if *update {
			testkit.Must(t, os.WriteFile(golden, []byte(strings.Join(got, "\n")+"\n"), 0o644))
		}
		text := testkit.Value(os.ReadFile(golden))(t)
		want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		testkit.Diff(t, fmt.Sprintf("the generated code and %s differ", golden), want, got)
	}
}

// Golden lists what the descriptors say; this is what grpc really serves.
func TestServiceNames(t *testing.T) {
	tests := []struct {
		served grpc.ServiceDesc
		wire   protoreflect.ServiceDescriptor
	}{
		{base.BasePlugin_ServiceDesc, base.File_plugin_proto_base_base_proto.Services().ByName("BasePlugin")},
		{drivers.Driver_ServiceDesc, drivers.File_plugin_proto_drivers_driver_proto.Services().ByName("Driver")},
	}
	for _, tt := range tests {
		var got, want []string
		for _, m := range tt.served.Methods {
			got = append(got, fmt.Sprintf("/%s/%s", tt.served.ServiceName, m.MethodName))
		}
		for _, s := range tt.served.Streams {
			got = append(got, fmt.Sprintf("/%s/%s client=%t server=%t",
				tt.served.ServiceName, s.StreamName, s.ClientStreams, s.ServerStreams))
		}
		for i := range tt.wire.Methods().Len() {
			m := tt.wire.Methods().Get(i)
			path := fmt.Sprintf("/%s/%s", tt.wire.FullName(), m.Name())
			if m.IsStreamingClient() || m.IsStreamingServer() {
				path += fmt.Sprintf(" client=%t server=%t", m.IsStreamingClient(), m.IsStreamingServer())
			}
			want = append(want, path)
		}
		slices.Sort(got)
		slices.Sort(want)
		testkit.Diff(t, string(tt.wire.FullName()), want, got)
	}
	const start = "/hashicorp.nomad.plugins.drivers.proto.Driver/StartTask"
	testkit.Equal(t, drivers.Driver_StartTask_FullMethodName, start, "StartTask is called as")
}

func appendServices(lines []string, services protoreflect.ServiceDescriptors) []string {
	for i := range services.Len() {
		s := services.Get(i)
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			lines = append(lines, fmt.Sprintf("rpc /%s/%s: %s%s -> %s%s", s.FullName(), m.Name(),
				stream(m.IsStreamingClient()), m.Input().FullName(),
				stream(m.IsStreamingServer()), m.Output().FullName()))
		}
	}
	return lines
}

func stream(yes bool) string {
	if yes {
		return "stream "
	}
	return ""
}

func appendEnums(lines []string, enums protoreflect.EnumDescriptors) []string {
	for i := range enums.Len() {
		e := enums.Get(i)
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			lines = append(lines, fmt.Sprintf("enum %s.%s = %d", e.FullName(), v.Name(), v.Number()))
		}
		// An enum's ranges are inclusive, a message's are not.
		for j := range e.ReservedRanges().Len() {
			r := e.ReservedRanges().Get(j)
			lines = append(lines, reserved(e.FullName(), int32(r[0]), int32(r[1])))
		}
		for j := range e.ReservedNames().Len() {
			lines = append(lines, fmt.Sprintf("reserved %s %q", e.FullName(), e.ReservedNames().Get(j)))
		}
	}
	return lines
}

func appendMessages(lines []string, messages protoreflect.MessageDescriptors) []string {
	for i := range messages.Len() {
		m := messages.Get(i)
		if m.IsMapEntry() {
			continue
		}
		lines = append(lines, fmt.Sprintf("message %s", m.FullName()))
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			lines = append(lines, fmt.Sprintf("field %s %s = %d", f.FullName(), fieldType(f), f.Number()))
		}
		for j := range m.ReservedRanges().Len() {
			r := m.ReservedRanges().Get(j)
			lines = append(lines, reserved(m.FullName(), int32(r[0]), int32(r[1])-1))
		}
		for j := range m.ReservedNames().Len() {
			lines = append(lines, fmt.Sprintf("reserved %s %q", m.FullName(), m.ReservedNames().Get(j)))
		}
		lines = appendEnums(lines, m.Enums())
		lines = appendMessages(lines, m.Messages())
	}
	return lines
}

func reserved(name protoreflect.FullName, first, last int32) string {
	return fmt.Sprintf("reserved %s %d to %d", name, first, last)
}

// fieldType is a field's type as a .proto file writes it, with full names.
func fieldType(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return fmt.Sprintf("map<%s, %s>", singularType(f.MapKey()), singularType(f.MapValue()))
	case f.IsList() && f.Message() == nil && f.Kind() != protoreflect.StringKind &&
		f.Kind() != protoreflect.BytesKind && !f.IsPacked():
		return "repeated unpacked " + singularType(f)
	case f.IsList():
		return "repeated " + singularType(f)
	case f.HasOptionalKeyword() || f.HasPresence() && f.Message() == nil && f.ContainingOneof() == nil:
		return "optional " + singularType(f) // 0 or empty is told from what is not there
	case f.ContainingOneof() != nil:
		return fmt.Sprintf("oneof %s %s", f.ContainingOneof().Name(), singularType(f))
	}
	return singularType(f)
}

func singularType(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return string(f.Message().FullName())
	case f.Enum() != nil:
		return string(f.Enum().FullName())
	}
	return f.Kind().String()
}
