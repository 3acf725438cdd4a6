// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package suite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

func garbageCases() []Case {
	return []Case{{"garbage in every field of every message", garbageFields}, {"bytes that are no message", garbageBytes}}
}

// Wired is a subject whose driver is behind a wire, on which anything can be sent.
type Wired interface {
	Conn() grpc.ClientConnInterface
}

func wireOf(e *Env) (grpc.ClientConnInterface, error) {
	subject, ok := e.subject.(Wired)
	if !ok {
		return nil, skip("not behind a wire")
	}
	return subject.Conn(), nil
}

// callTimeout is how long an answer to garbage may take. Streams that are opened in spite of it end then.
const callTimeout = 2 * time.Second

func garbageFields(ctx context.Context, e *Env) error {
	conn := value(wireOf(e))
	for method := range methods() {
		for _, value := range hostileValues() {
			for i := range method.Input().Fields().Len() {
				message := dynamicpb.NewMessage(method.Input())
				spoil(message, method.Input().Fields().Get(i), value, 6)
				must(call(ctx, conn, method, message))
			}
			whole := dynamicpb.NewMessage(method.Input())
			for i := range method.Input().Fields().Len() {
				spoil(whole, method.Input().Fields().Get(i), value, 6)
			}
			must(call(ctx, conn, method, whole))
		}
	}
	return e.stillWorks(ctx)
}

// stillWorks runs a task. The plugin is opened anew for that: garbage may have been a configuration.
func (e *Env) stillWorks(ctx context.Context) error {
	if _, err := e.Capabilities(ctx); err != nil {
		return fmt.Errorf("after that: %w", err)
	}
	must(e.subject.Close(ctx))
	must(e.open(ctx))
	return e.wantExit(ctx, e.run(ctx, "exit 3"), driver.ExitResult{Code: 3})
}

// methods yields every call of both services, but for the one that ends the plugin.
func methods() func(yield func(protoreflect.MethodDescriptor) bool) {
	return func(yield func(protoreflect.MethodDescriptor) bool) {
		for _, file := range []protoreflect.FileDescriptor{
			base.File_plugin_proto_base_base_proto, drivers.File_plugin_proto_drivers_driver_proto,
		} {
			for i := range file.Services().Len() {
				service := file.Services().Get(i)
				for j := range service.Methods().Len() {
					if m := service.Methods().Get(j); m.Name() != "Shutdown" && !yield(m) {
						return
					}
				}
			}
		}
	}
}

// hostile is one kind of garbage.
type hostile struct {
	text   string
	bytes  []byte
	number int64
	float  float64
}

func hostileValues() []hostile {
	return []hostile{
		{},
		{text: "../../../../../etc/passwd", bytes: []byte{0xc1}, number: -1, float: -1},
		{text: "\x00\x01\n;'\"$(id)%s", bytes: []byte("\xdf\xff\xff\xff\xff"), number: math.MinInt64, float: math.NaN()},
		{text: strings.Repeat("x", 1<<16), bytes: make([]byte, 1<<16), number: math.MaxInt64, float: math.Inf(1)},
	}
}

// spoil sets a field to garbage; messages down to depth.
func spoil(m protoreflect.Message, field protoreflect.FieldDescriptor, value hostile, depth int) {
	if depth == 0 {
		return
	}
	switch {
	case field.IsMap():
		entries := m.Mutable(field).Map()
		v := entries.NewValue()
		if field.MapValue().Message() == nil {
			v = scalar(field.MapValue(), value)
		} else {
			spoilAll(v.Message(), value, depth-1)
		}
		entries.Set(scalar(field.MapKey(), value).MapKey(), v)
	case field.IsList() && field.Message() != nil:
		spoilAll(m.Mutable(field).List().AppendMutable().Message(), value, depth-1)
	case field.IsList():
		m.Mutable(field).List().Append(scalar(field, value))
	case field.Message() != nil:
		spoilAll(m.Mutable(field).Message(), value, depth-1)
	default:
		m.Set(field, scalar(field, value))
	}
}

func spoilAll(m protoreflect.Message, value hostile, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		spoil(m, fields.Get(i), value, depth)
	}
}

func scalar(field protoreflect.FieldDescriptor, value hostile) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(value.number != 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(int32(value.number)))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(value.number))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(value.number)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(value.number))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(value.number))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(value.float)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(value.bytes)
	default:
		return protoreflect.ValueOfString(value.text)
	}
}

// call sends a message and wants any answer; the end of the plugin is not an answer.
func call(ctx context.Context, conn grpc.ClientConnInterface, method protoreflect.MethodDescriptor, m proto.Message) error {
	return answered(method, send(ctx, conn, method, m))
}

func send(ctx context.Context, conn grpc.ClientConnInterface, method protoreflect.MethodDescriptor, m any, options ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	path := fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
	if !method.IsStreamingServer() {
		return conn.Invoke(ctx, path, m, dynamicpb.NewMessage(method.Output()), options...)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: method.IsStreamingClient()}, path, options...)
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(m), stream.CloseSend()); err != nil {
		return err
	}
	// One message, or the error of the stream: what was opened in spite of all ends with the context.
	return stream.RecvMsg(dynamicpb.NewMessage(method.Output()))
}

func answered(method protoreflect.MethodDescriptor, err error) error {
	switch code := status.Code(err); {
	case code == codes.Unavailable:
		return fmt.Errorf("%s: the plugin is gone: %w", method.Name(), err)
	case code == codes.DeadlineExceeded && !method.IsStreamingServer():
		return fmt.Errorf("%s does not answer: %w", method.Name(), err)
	}
	return nil
}

func garbageBytes(ctx context.Context, e *Env) error {
	conn := value(wireOf(e))
	for method := range methods() {
		for _, garbage := range []string{"\xff", "\x0a\xff\xff\xff\xff\x0f", strings.Repeat("\x0b", 4096), strings.Repeat("\x0a\x02", 4096)} {
			err := send(ctx, conn, method, []byte(garbage), grpc.ForceCodec(rawCodec{}))
			must(answered(method, err))
		}
	}
	return e.stillWorks(ctx)
}

// rawCodec sends bytes as they are and reads nothing.
type rawCodec struct{}

// Marshal implements encoding.Codec.
func (rawCodec) Marshal(v any) ([]byte, error) {
	raw, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("encode a %T as it is", v)
	}
	return raw, nil
}

// Unmarshal implements encoding.Codec.
func (rawCodec) Unmarshal([]byte, any) error { return nil }

// Name implements encoding.Codec.
func (rawCodec) Name() string { return "proto" }
