// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package proto_test

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/proto/hclspec"
	"github.com/tachograph/tacho/plugin/proto/structs"
)

// The bytes are worked out by hand from the protobuf encoding: key = number<<3
// | wire type. The order of fields is the encoder's own affair.
func TestEncoding(t *testing.T) {
	tests := []struct {
		name string
		msg  proto.Message
		want string
	}{
		{"bool", &structs.RecoverableError{Recoverable: true}, "0801"},
		{
			"oneof double and unit",
			&structs.Attribute{Value: &structs.Attribute_FloatVal{FloatVal: 1}, Unit: "s"},
			"09000000000000f03f" + "2a0173",
		},
		{
			"zero in a oneof is sent",
			&structs.Attribute{Value: &structs.Attribute_BoolVal{}}, "2000",
		},
		{
			"numbers out of order",
			&drivers.LinuxResources{CpusetCgroup: "/c", PercentTicks: 0.5},
			"41000000000000e03f" + "4a022f63",
		},
		{
			"packed enum",
			&drivers.MemoryUsage{Rss: 1, Usage: 300, MeasuredFields: []drivers.MemoryUsage_Fields{
				drivers.MemoryUsage_RSS, drivers.MemoryUsage_USAGE,
			}},
			"0801" + "32020005" + "38ac02",
		},
		{
			"duration and signal",
			&drivers.StopTaskRequest{TaskId: "t", Timeout: durationpb.New(5e9), Signal: "SIGINT"},
			"0a0174" + "12020805" + "1a06534947494e54",
		},
		{
			"map",
			&drivers.NetworkOverride{PortMap: map[string]int32{"http": 80}},
			"0a080a0468747470" + "1050",
		},
		{
			"alias of zero is not sent",
			&drivers.DriverCapabilities{MountConfigs: drivers.DriverCapabilities_ANY_MOUNTS}, "",
		},
		{
			"default of a default",
			&hclspec.Spec{Kind: &hclspec.Spec_Default{Default: &hclspec.Default{
				Default: &hclspec.Spec{Kind: &hclspec.Spec_Literal{Literal: &hclspec.Literal{Value: "5"}}},
			}}},
			"4a07" + "1205" + "5203" + "0a0135",
		},
		{
			"topology",
			&base.NomadDriverConfig{ClientMaxPort: 1, ClientMinPort: 2, Topology: &base.ClientTopology{
				NodeIds: []uint32{0}, OverrideWitholdCompute: 3,
			}},
			"0801" + "1002" + "1a05" + "0a0100" + "2803",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := proto.MarshalOptions{Deterministic: true}.Marshal(tt.msg)
			if err != nil {
				t.Fatal(err)
			}
			want, err := hex.DecodeString(tt.want)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(fieldsOf(t, want), fieldsOf(t, got)); d != "" {
				t.Errorf("encoded as %x, want %x in any order:\n%s", got, want, d)
			}
			back := tt.msg.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(want, back); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.msg, back, protocmp.Transform()); d != "" {
				t.Errorf("decoded differently (-sent +got):\n%s", d)
			}
		})
	}
}

// fieldsOf cuts an encoded message into its fields, sorted.
func fieldsOf(t *testing.T, encoded []byte) []string {
	t.Helper()
	var fields []string
	for len(encoded) > 0 {
		_, _, n := protowire.ConsumeField(encoded)
		if n < 0 {
			t.Fatalf("cut %x: %v", encoded, protowire.ParseError(n))
		}
		fields = append(fields, hex.EncodeToString(encoded[:n]))
		encoded = encoded[n:]
	}
	slices.Sort(fields)
	return fields
}

// FuzzDecode decodes arbitrary bytes as each message of the wire. What can be
// decoded can be encoded again, and is then the same message.
func FuzzDecode(f *testing.F) {
	types := messageTypes(f)
	f.Add([]byte(nil))
	f.Add(bytes.Repeat([]byte{0x0b}, 64))
	for _, mt := range types {
		for _, m := range seedMessages(mt) {
			seed, err := proto.Marshal(m)
			if err != nil {
				f.Fatalf("encode %s: %v", mt.Descriptor().FullName(), err)
			}
			f.Add(seed)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, mt := range types {
			roundTrip(t, mt, data)
		}
	})
}

func roundTrip(t *testing.T, mt protoreflect.MessageType, data []byte) {
	t.Helper()
	name := mt.Descriptor().FullName()
	first := mt.New().Interface()
	if proto.Unmarshal(data, first) != nil {
		return
	}
	encoded, err := proto.Marshal(first)
	if err != nil {
		t.Fatalf("encode %s, decoded from %x: %v", name, data, err)
	}
	second := mt.New().Interface()
	if err := proto.Unmarshal(encoded, second); err != nil {
		t.Fatalf("decode %s again from %x: %v", name, encoded, err)
	}
	if !proto.Equal(first, second) {
		t.Fatalf("%s changed on its way: %v became %v", name, first, second)
	}
}

// messageTypes are the Go types of every message of the wire.
func messageTypes(tb testing.TB) []protoreflect.MessageType {
	tb.Helper()
	var types []protoreflect.MessageType
	var walk func(protoreflect.MessageDescriptors)
	walk = func(ms protoreflect.MessageDescriptors) {
		for i := range ms.Len() {
			m := ms.Get(i)
			if m.IsMapEntry() {
				continue
			}
			mt, err := protoregistry.GlobalTypes.FindMessageByName(m.FullName())
			if err != nil {
				tb.Fatalf("find %s: %v", m.FullName(), err)
			}
			types = append(types, mt)
			walk(m.Messages())
		}
	}
	for _, f := range wireFiles() {
		walk(f.Messages())
	}
	return types
}

// seedMessages are a message with all fields set, and one for each member of its
// oneofs.
func seedMessages(mt protoreflect.MessageType) []proto.Message {
	all := mt.New()
	fill(all, 3)
	seeds := []proto.Message{all.Interface()}
	fields := mt.Descriptor().Fields()
	for i := range fields.Len() {
		if fields.Get(i).ContainingOneof() != nil {
			m := mt.New()
			fillField(m, fields.Get(i), 3)
			seeds = append(seeds, m.Interface())
		}
	}
	return seeds
}

// fill sets every field of m to something that is not zero; messages only down
// to depth, since some contain themselves.
func fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fillField(m, fields.Get(i), depth)
	}
}

func fillField(m protoreflect.Message, fd protoreflect.FieldDescriptor, depth int) {
	value := fd
	if fd.IsMap() {
		value = fd.MapValue()
	}
	nested := value.Message() != nil
	if nested && depth == 0 {
		return
	}
	switch {
	case fd.IsMap():
		entries := m.Mutable(fd).Map()
		v := entries.NewValue()
		if nested {
			fill(v.Message(), depth-1)
		} else {
			v = scalar(value)
		}
		entries.Set(scalar(fd.MapKey()).MapKey(), v)
	case fd.IsList() && nested:
		fill(m.Mutable(fd).List().AppendMutable().Message(), depth-1)
	case fd.IsList():
		m.Mutable(fd).List().Append(scalar(fd))
	case nested:
		fill(m.Mutable(fd).Message(), depth-1)
	default:
		m.Set(fd, scalar(fd))
	}
}

func scalar(fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(values.Len() - 1).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(-2)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(-3)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(4)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(5)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(6.5)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{7})
	default:
		return protoreflect.ValueOfString("eight")
	}
}
