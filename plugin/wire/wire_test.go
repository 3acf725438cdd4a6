// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/proto/hclspec"
	"github.com/tachograph/tacho/plugin/proto/structs"
)

func wholeTask() *driver.TaskConfig {
	return &driver.TaskConfig{
		ID: "id", Name: "name", AllocID: "alloc", JobID: "job", JobName: "job name",
		TaskGroupName: "group", Namespace: "ns", NodeName: "node name",
		DriverConfig: []byte{0x80}, Env: map[string]string{"A": "1"}, DeviceEnv: map[string]string{"B": "2"},
		Resources: &driver.Resources{Linux: &driver.LinuxResources{
			CPUPeriod: 1, CPUQuota: 2, CPUShares: 3, MemoryLimitBytes: 4, CpusetCPUs: "0-1", CpusetCgroup: "/nomad",
		}},
		Mounts: []driver.Mount{{TaskPath: "/a"}},
		User:   "nobody", AllocDir: "/alloc", StdoutPath: "/out", StderrPath: "/err",
		Network: &driver.NetworkIsolation{Mode: driver.NetworkGroup, Path: "/var/run/netns/x"},
	}
}

// overWire sends a message through its encoding.
func overWire[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	encoded, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("encode %T: %v", m, err)
	}
	back, ok := m.ProtoReflect().New().Interface().(M)
	if !ok {
		t.Fatalf("no new %T", m)
	}
	if err := proto.Unmarshal(encoded, back); err != nil {
		t.Fatalf("decode %T: %v", m, err)
	}
	return back
}

func same[T any](t *testing.T, want, got T) {
	t.Helper()
	testkit.Diff(t, fmt.Sprintf("%T", want), want, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs())
}

func TestRoundTrips(t *testing.T) {
	at := time.Unix(1700000000, 5).UTC()
	handle := &driver.TaskHandle{Version: 1, Config: wholeTask(), State: driver.TaskRunning, DriverState: []byte("x")}
	same(t, handle, Convert[driver.TaskHandle](overWire(t, Convert[drivers.TaskHandle](handle))))

	inspected := overWire(t, FromTaskStatus(&driver.TaskStatus{
		ID: "id", Name: "n", State: driver.TaskExited, StartedAt: at, CompletedAt: at.Add(time.Second),
		Exit: &driver.ExitResult{Code: 137, Signal: 9, OOMKilled: true}, Attributes: map[string]string{"pid": "7"},
	}))
	want := &drivers.TaskStatus{
		Id: "id", Name: "n", State: drivers.TaskState(driver.TaskExited), Result: &drivers.ExitResult{ExitCode: 137, Signal: 9, OomKilled: true},
		StartedAt: timestamppb.New(at), CompletedAt: timestamppb.New(at.Add(time.Second)),
	}
	if d := cmp.Diff(want, inspected.GetTask(), protocmp.Transform()); d != "" || inspected.GetDriver().GetAttributes()["pid"] != "7" {
		t.Errorf("status (-want +got):\n%s", d)
	}
	running := overWire(t, FromTaskStatus(&driver.TaskStatus{ID: "id", State: driver.TaskRunning})).GetTask()
	// A host that dereferences all three must find a moment that protobuf holds for valid.
	if running.Result == nil || running.StartedAt.CheckValid() != nil || running.CompletedAt.CheckValid() != nil {
		t.Errorf("a running task is sent as %v", running)
	}

	event := &driver.Event{
		TaskID: "t", AllocID: "a", TaskName: "n", Timestamp: at, Message: "m",
		Annotations: map[string]string{"k": "v"},
	}
	same(t, event, Convert[driver.Event](overWire(t, FromEvent(event))))

	print := overWire(t, FromFingerprint(&driver.Fingerprint{
		Health: driver.Unhealthy, Description: "why", Attributes: map[string]any{"s": "x", "b": true},
	}))
	if d := cmp.Diff(&drivers.FingerprintResponse{
		Health: drivers.FingerprintResponse_UNHEALTHY, HealthDescription: "why",
		Attributes: map[string]*structs.Attribute{
			"s": {Value: &structs.Attribute_StringVal{StringVal: "x"}},
			"b": {Value: &structs.Attribute_BoolVal{BoolVal: true}},
		},
	}, print, protocmp.Transform()); d != "" {
		t.Errorf("fingerprint (-want +got):\n%s", d)
	}
}

func TestCoreMHz(t *testing.T) {
	core := &base.ClientTopologyCore{BaseSpeed: 2000, MaxSpeed: 3000}
	for _, test := range []struct {
		topology *base.ClientTopology
		want     float64
	}{
		{nil, 0},
		{&base.ClientTopology{OverrideTotalCompute: 5000}, 0},
		{&base.ClientTopology{Cores: []*base.ClientTopologyCore{core, {MaxSpeed: 3000}, {GuessSpeed: 1000}}}, 2000},
		{&base.ClientTopology{Cores: []*base.ClientTopologyCore{core, {}}}, 0},
		{&base.ClientTopology{Cores: []*base.ClientTopologyCore{core, {}}, OverrideTotalCompute: 5000}, 2500},
	} {
		if got := CoreMHz(test.topology); got != test.want {
			t.Errorf("%v: %v MHz, want %v", test.topology, got, test.want)
		}
	}
}

func TestFromWait(t *testing.T) {
	lost := FromWait(&driver.ExitResult{Code: 137, Signal: 9, OOMKilled: true, Err: errors.New("executor \xff lost")})
	want := &drivers.WaitTaskResponse{
		Result: &drivers.ExitResult{ExitCode: 137, Signal: 9, OomKilled: true}, Err: "executor \uFFFD lost",
	}
	testkit.Diff(t, "exit", want, overWire(t, lost), protocmp.Transform())
}

func TestFromSchema(t *testing.T) {
	schema := driver.Schema{
		{Name: "attr", Type: "list(string)", Required: true},
		{Name: "default", Type: "string", Default: "x"},
		{Name: "block", Required: true, Block: driver.Schema{{Name: "a", Type: "any"}}},
	}
	attr := func(name, kind string, required bool) *hclspec.Spec {
		return &hclspec.Spec{Kind: &hclspec.Spec_Attr{Attr: &hclspec.Attr{Name: name, Type: kind, Required: required}}}
	}
	object := func(attributes map[string]*hclspec.Spec) *hclspec.Spec {
		return &hclspec.Spec{Kind: &hclspec.Spec_Object{Object: &hclspec.Object{Attributes: attributes}}}
	}
	want := object(map[string]*hclspec.Spec{
		"attr": attr("attr", "list(string)", true),
		"default": {Kind: &hclspec.Spec_Default{Default: &hclspec.Default{
			Primary: attr("default", "string", false),
			Default: &hclspec.Spec{Kind: &hclspec.Spec_Literal{Literal: &hclspec.Literal{Value: `"x"`}}},
		}}},
		"block": {Kind: &hclspec.Spec_BlockValue{BlockValue: &hclspec.Block{
			Name: "block", Required: true, Nested: object(map[string]*hclspec.Spec{"a": attr("a", "any", false)}),
		}}},
	})
	testkit.Diff(t, "schema", want, overWire(t, FromSchema(schema)), protocmp.Transform())
}

func TestStatus(t *testing.T) {
	for _, test := range []struct {
		name        string
		sent        error
		code        codes.Code
		recoverable any // nil if the status does not say
	}{
		{"unknown task", driver.ErrTaskNotFound, codes.Unknown, nil},
		{"wrapped", fmt.Errorf("stop: %w", driver.ErrTaskNotFound), codes.Unknown, nil},
		{"no stats", driver.ErrStatsNotImplemented, codes.Unknown, nil},
		{"running", fmt.Errorf("destroy: %w", driver.ErrTaskRunning), codes.Unknown, nil},
		{"plain", errors.New("it broke"), codes.Unknown, nil},
		{"bytes", errors.New("name \xff"), codes.Unknown, nil},
		{"temporary", driver.Recoverable(errors.New("no memory"), true), codes.FailedPrecondition, true},
		{
			"permanent", fmt.Errorf("start: %w", driver.Recoverable(errors.New("no command"), false)),
			codes.FailedPrecondition, false,
		},
		{
			"temporary after a deadline",
			driver.Recoverable(fmt.Errorf("end earlier task: %w", context.DeadlineExceeded), true), codes.FailedPrecondition, true,
		},
		{"gone", fmt.Errorf("x: %w", driver.ErrUnavailable), codes.Unavailable, nil},
		{"invalid", fmt.Errorf("x: %w", driver.ErrInvalid), codes.InvalidArgument, nil},
		{"not supported", driver.ErrNotSupported, codes.Unimplemented, nil},
		{"cancelled", context.Canceled, codes.Canceled, nil},
		{"late", fmt.Errorf("exec: %w", context.DeadlineExceeded), codes.DeadlineExceeded, nil},
	} {
		sent := status.FromProto(overWire(t, status.Convert(Status(test.sent)).Proto()))
		if sent.Code() != test.code || sent.Message() != text(test.sent.Error()) {
			t.Errorf("%s: sent as %s %q, want %s", test.name, sent.Code(), sent.Message(), test.code)
		}
		var recoverable any
		for _, detail := range sent.Details() {
			recoverable = detail.(*structs.RecoverableError).GetRecoverable()
		}
		testkit.Equal(t, recoverable, test.recoverable, "%s: recoverable", test.name)
	}
	if Status(nil) != nil {
		t.Error("no error became one")
	}
}

// FuzzRead reads arbitrary messages. What was read can be sent, and reads the same again.
func FuzzRead(f *testing.F) {
	for _, seed := range []proto.Message{
		Convert[drivers.TaskHandle](&driver.TaskHandle{Config: wholeTask()}), &drivers.TaskHandle{Config: &drivers.TaskConfig{}},
		&drivers.TaskConfig{Resources: &drivers.Resources{}},
	} {
		encoded, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		stable(t, data, Convert[driver.TaskHandle, drivers.TaskHandle], Convert[drivers.TaskHandle])
		stable(t, data, Convert[driver.TaskConfig, drivers.TaskConfig], Convert[drivers.TaskConfig])
	})
}

type message[M any] interface {
	*M
	proto.Message
}

func stable[M any, P message[M], T any](t *testing.T, data []byte, read func(*M) *T, make func(*T) *M) {
	t.Helper()
	m := P(new(M))
	if proto.Unmarshal(data, m) != nil {
		return
	}
	first := read(m)
	same(t, first, read(overWire(t, P(make(first)))))
}
