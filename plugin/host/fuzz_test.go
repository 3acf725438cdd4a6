// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/wire"
)

// calls are the methods that a host calls, and whether they answer with a stream.
func calls() []struct {
	path   string
	stream bool
} {
	var all []struct {
		path   string
		stream bool
	}
	for _, service := range []grpc.ServiceDesc{base.BasePlugin_ServiceDesc, drivers.Driver_ServiceDesc} {
		for _, m := range service.Methods {
			all = append(all, struct {
				path   string
				stream bool
			}{"/" + service.ServiceName + "/" + m.MethodName, false})
		}
		for _, s := range service.Streams {
			all = append(all, struct {
				path   string
				stream bool
			}{"/" + service.ServiceName + "/" + s.StreamName, true})
		}
	}
	return all
}

// bytesCodec sends bytes as they are and reads nothing.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error) {
	raw, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("encode a %T as it is", v)
	}
	return raw, nil
}

func (bytesCodec) Unmarshal([]byte, any) error { return nil }
func (bytesCodec) Name() string                { return "proto" }

// FuzzCalls sends arbitrary bytes to every method. Whatever they are there is an answer, and the server lives on.
func FuzzCalls(f *testing.F) {
	for _, seed := range []proto.Message{
		&drivers.StartTaskRequest{Task: wire.FromTaskConfig(&driver.TaskConfig{ID: "t"})},
		&drivers.RecoverTaskRequest{TaskId: "t", Handle: wire.FromTaskHandle(&driver.TaskHandle{Config: &driver.TaskConfig{ID: "t"}})},
		&drivers.ExecTaskStreamingRequest{Setup: &drivers.ExecTaskStreamingRequest_Setup{TaskId: "t", Command: []string{"x"}}},
		&base.SetConfigRequest{MsgpackConfig: []byte{0x80}, NomadConfig: wire.FromNode(&driver.Node{})},
	} {
		encoded, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Add([]byte("\x0a\xff\xff\xff\xff\x0f"))
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	fake := newFake()
	close(fake.stopped) // streams end after what they have to say
	plugin.Register(server, plugin.Info{Name: "fake", Version: "1.2.3"}, fake)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:fake",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := conn.Close(); err != nil {
			f.Error(err)
		}
		server.Stop()
		if err := <-served; err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, call := range calls() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			err := sendBytes(ctx, conn, call.path, call.stream, data)
			cancel()
			switch status.Code(err) {
			case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
				t.Errorf("%s: %v", call.path, err)
			}
		}
	})
}

func sendBytes(ctx context.Context, conn *grpc.ClientConn, path string, stream bool, data []byte) error {
	raw := grpc.ForceCodec(bytesCodec{})
	if !stream {
		return conn.Invoke(ctx, path, data, nil, raw)
	}
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path, raw)
	if err != nil {
		return err
	}
	if err := s.SendMsg(data); err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	return s.RecvMsg(nil)
}
