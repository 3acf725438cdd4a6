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

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/driver/schema"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/proto/hclspec"
	"github.com/tachograph/tacho/procstats"
)

func wholeTask() *driver.TaskConfig {
	return &driver.TaskConfig{
		ID: "id", Name: "name", AllocID: "alloc", JobID: "job", JobName: "job name", ParentJobID: "parent",
		TaskGroupName: "group", Namespace: "ns", NodeID: "node", NodeName: "node name",
		DriverConfig: []byte{0x80}, Env: map[string]string{"A": "1"}, DeviceEnv: map[string]string{"B": "2"},
		Resources: &driver.Resources{
			CPUShares: 500, MemoryMB: 256, MemoryMaxMB: 512,
			Networks: []driver.Network{{
				Device: "eth0", CIDR: "10.0.0.0/8", IP: "10.0.0.1", MBits: 10,
				ReservedPorts: []driver.Port{{Label: "http", Value: 80}}, DynamicPorts: []driver.Port{{Label: "x", Value: 20000}},
			}},
			Linux: &driver.LinuxResources{
				CPUPeriod: 1, CPUQuota: 2, CPUShares: 3, MemoryLimitBytes: 4, OOMScoreAdj: -5, CpusetCPUs: "0-1",
				CpusetCgroup: "/nomad", PercentTicks: 0.5,
			},
			Ports: []driver.PortMapping{{Label: "http", Value: 20000, To: 80, HostIP: "::1"}},
		},
		Mounts: []driver.Mount{{
			TaskPath: "/a", HostPath: "/b", Readonly: true, PropagationMode: "private",
			SELinuxLabel: "z", RequestName: "v",
		}},
		Devices: []driver.Device{{TaskPath: "/dev/a", HostPath: "/dev/b", CgroupPermissions: "rwm"}},
		User:    "nobody", AllocDir: "/alloc", StdoutPath: "/out", StderrPath: "/err",
		Network: &driver.NetworkIsolation{
			Mode: driver.NetworkGroup, Path: "/var/run/netns/x",
			Labels: map[string]string{"k": "v"}, Hosts: &driver.HostsEntry{Hostname: "h", Address: "10.0.0.2"},
		},
		DNS: &driver.DNS{Servers: []string{"1.1.1.1"}, Searches: []string{"local"}, Options: []string{"ndots:2"}},
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
	if d := cmp.Diff(want, got, cmpopts.EquateErrors(), cmpopts.EquateEmpty(), cmpopts.EquateNaNs(), cmp.Comparer(func(a, b *procstats.Sample) bool {
		return string(marshalSample(a)) == string(marshalSample(b))
	})); d != "" {
		t.Errorf("%T (-sent +received):\n%s", want, d)
	}
}

func TestRoundTrips(t *testing.T) {
	at := time.Unix(1700000000, 5).UTC()
	handle := &driver.TaskHandle{Version: 1, Config: wholeTask(), State: driver.TaskRunning, DriverState: []byte("x")}
	same(t, handle, ToTaskHandle(overWire(t, FromTaskHandle(handle))))

	network := &driver.NetworkOverride{PortMap: map[string]int32{"http": 80}, Addr: "10.0.0.2", AutoAdvertise: true}
	same(t, network, ToNetworkOverride(overWire(t, FromNetworkOverride(network))))

	inspected := &driver.TaskStatus{
		ID: "id", Name: "n", State: driver.TaskExited, StartedAt: at, CompletedAt: at.Add(time.Second),
		Exit:       &driver.ExitResult{Code: 137, Signal: 9, OOMKilled: true},
		Attributes: map[string]string{"pid": "7"}, Network: network,
	}
	same(t, inspected, ToTaskStatus(overWire(t, FromTaskStatus(inspected))))
	running := overWire(t, FromTaskStatus(&driver.TaskStatus{ID: "id", State: driver.TaskRunning}))
	same(t, &driver.TaskStatus{ID: "id", State: driver.TaskRunning}, ToTaskStatus(running))
	// A host that dereferences all three must find a moment that protobuf holds for valid.
	if task := running.GetTask(); task.Result == nil || task.StartedAt.CheckValid() != nil || task.CompletedAt.CheckValid() != nil {
		t.Errorf("a running task is sent as %v", task)
	}

	event := &driver.Event{
		TaskID: "t", AllocID: "a", TaskName: "n", Timestamp: at, Message: "m",
		Annotations: map[string]string{"k": "v"},
	}
	same(t, event, ToEvent(overWire(t, FromEvent(event))))

	capabilities := &driver.Capabilities{
		SendSignals: true, Exec: true, FSIsolation: driver.FSUnveil, MustCreateNetwork: true, NoMounts: true,
		NetworkModes: []driver.NetworkMode{driver.NetworkHost, driver.NetworkGroup}, DisableLogCollection: true,
		DynamicWorkloadUsers: true,
	}
	same(t, capabilities, ToCapabilities(overWire(t, FromCapabilities(capabilities))))

	print := &driver.Fingerprint{Health: driver.Unhealthy, Description: "why", Attributes: map[string]driver.Attribute{
		"s": {Value: "x", Unit: "MHz"}, "b": {Value: true}, "i": {Value: int64(-1)}, "f": {Value: 0.5},
	}}
	same(t, print, ToFingerprint(overWire(t, FromFingerprint(print))))

	node := &driver.Node{MinPort: 1, MaxPort: 2, Topology: &driver.Topology{
		NodeIDs: []uint32{0, 1}, Distances: &driver.Distances{Dimension: 2, Values: []uint32{10, 20, 20, 10}},
		Cores: []driver.Core{{
			SocketID: 1, NodeID: 2, CoreID: 3, Grade: driver.EfficiencyCore, Disabled: true,
			BaseSpeed: 4, MaxSpeed: 5, GuessedSpeed: 6,
		}},
		OverrideTotalCompute: 7, OverrideWithheldCompute: 8,
	}}
	same(t, node, ToNode(overWire(t, FromNode(node))))
}

func TestRoundTripStats(t *testing.T) {
	sample := &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Second, Wall: time.Unix(1, 2)}}
	sample.SetNumber(procstats.CgroupCPUUsage, 1.5)
	sample.SetAbsent(procstats.CgroupMemoryPeak, "not here")
	got, err := ToSample(overWire(t, FromSample("t", sample, nil, 0)))
	if err != nil {
		t.Fatal(err)
	}
	same(t, sample, got)
	if _, err := ToSample(&drivers.TaskStats{TachoSample: []byte{0xff}}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a sample that is none: %v", err)
	}
}

func TestRoundTripWait(t *testing.T) {
	for _, sent := range []*driver.ExitResult{{}, {Code: 3}, {Code: 137, Signal: 9, OOMKilled: true}, {Code: 137, Signal: 9, Retryable: "the host"}} {
		same(t, sent, ToWait(overWire(t, FromWait(sent))))
	}
	lost := ToWait(overWire(t, FromWait(&driver.ExitResult{Code: 137, Err: errors.New("executor \xff lost")})))
	if lost.Err == nil || lost.Err.Error() != "executor \uFFFD lost" || lost.Code != 137 {
		t.Errorf("exit %+v", lost)
	}
	if none := ToWait(&drivers.WaitTaskResponse{}); none.Err == nil || none.Successful() {
		t.Errorf("an answer without a result reads as %+v", none)
	}
}

// nestedSchema is a message of lists in each other.
func nestedSchema(depth int) *hclspec.Spec {
	nested := &hclspec.Spec{Kind: &hclspec.Spec_Literal{Literal: &hclspec.Literal{}}}
	for range depth {
		nested = &hclspec.Spec{Kind: &hclspec.Spec_Array{Array: &hclspec.Array{Values: []*hclspec.Spec{nested}}}}
	}
	return nested
}

func TestRoundTripSchema(t *testing.T) {
	spec := schema.Object{
		"attr":    schema.Attr{Name: "attr", Type: "list(string)", Required: true},
		"default": schema.Default{Primary: schema.Attr{Name: "d", Type: "number"}, Default: schema.Literal("5")},
		"block":   schema.Block{Name: "block", Required: true, Nested: schema.Object{"a": schema.Attr{Name: "a", Type: "any"}}},
		"attrs":   schema.BlockAttrs{Name: "attrs", Type: "string", Required: true},
		"list":    schema.BlockList{Name: "list", Min: 1, Max: 2, Nested: schema.Literal("true")},
		"set":     schema.BlockSet{Name: "set", Min: 3, Max: 4, Nested: schema.Literal("true")},
		"map":     schema.BlockMap{Name: "map", Labels: []string{"l"}, Nested: schema.Literal("true")},
		"array":   schema.Array{schema.Literal("1"), schema.Literal("\"x\"")},
	}
	got, err := ToSchema(overWire(t, FromSchema(spec)))
	if err != nil {
		t.Fatal(err)
	}
	same[schema.Spec](t, spec, got)
	for _, own := range []schema.Spec{driver.ConfigSchema(), driver.TaskSchema()} {
		got, err := ToSchema(overWire(t, FromSchema(own)))
		if err != nil {
			t.Fatal(err)
		}
		same(t, own, got)
	}
	deep := nestedSchema(maxSchemaDepth)
	for name, m := range map[string]*hclspec.Spec{
		"deep": deep, "empty": {},
		"empty part": {Kind: &hclspec.Spec_Default{Default: &hclspec.Default{}}},
	} {
		if got, err := ToSchema(m); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, test := range []struct {
		name        string
		sent        error
		code        codes.Code
		is          error
		recoverable any // nil where nothing is said of it
	}{
		{"unknown task", driver.ErrTaskNotFound, codes.Unknown, driver.ErrTaskNotFound, nil},
		{"wrapped", fmt.Errorf("stop: %w", driver.ErrTaskNotFound), codes.Unknown, driver.ErrTaskNotFound, nil},
		{"no stats", driver.ErrStatsNotImplemented, codes.Unknown, driver.ErrStatsNotImplemented, nil},
		{"running", fmt.Errorf("destroy: %w", driver.ErrTaskRunning), codes.Unknown, driver.ErrTaskRunning, nil},
		{"plain", errors.New("it broke"), codes.Unknown, nil, nil},
		{"bytes", errors.New("name \xff"), codes.Unknown, nil, nil},
		{"temporary", driver.Recoverable(errors.New("no memory"), true), codes.FailedPrecondition, nil, true},
		{"permanent", fmt.Errorf("start: %w", driver.Recoverable(errors.New("no command"), false)), codes.FailedPrecondition, nil, false},
		{"temporary after a deadline", driver.Recoverable(fmt.Errorf("end earlier task: %w", context.DeadlineExceeded), true), codes.FailedPrecondition, nil, true},
		{"gone", fmt.Errorf("x: %w", driver.ErrUnavailable), codes.Unavailable, driver.ErrUnavailable, nil},
		{"invalid", fmt.Errorf("x: %w", driver.ErrInvalid), codes.InvalidArgument, driver.ErrInvalid, nil},
		{"not supported", driver.ErrNotSupported, codes.Unimplemented, driver.ErrNotSupported, nil},
		{"cancelled", context.Canceled, codes.Canceled, context.Canceled, nil},
		{"late", fmt.Errorf("exec: %w", context.DeadlineExceeded), codes.DeadlineExceeded, context.DeadlineExceeded, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			// As it arrives: the text and the details of the status, through their encoding.
			sent := status.Convert(Status(test.sent))
			received := Error(status.FromProto(overWire(t, sent.Proto())).Err())
			if sent.Code() != test.code {
				t.Errorf("sent as %s, want %s", sent.Code(), test.code)
			}
			if received == nil || received.Error() != text(test.sent.Error()) {
				t.Errorf("received %v, sent %v", received, test.sent)
			}
			if test.is != nil && !errors.Is(received, test.is) {
				t.Errorf("received %v, which is not %v", received, test.is)
			}
			recoverable, known := driver.IsRecoverable(received)
			if known != (test.recoverable != nil) || known && recoverable != test.recoverable {
				t.Errorf("recoverable %t, known %t; want %v", recoverable, known, test.recoverable)
			}
		})
	}
	// Hosts and plugins of others say it in words alone.
	if err := Error(status.Error(codes.Unknown, "start: plugin is shut down")); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("received %v, which is not %v", err, driver.ErrUnavailable)
	}
	if Status(nil) != nil || Error(nil) != nil {
		t.Error("no error became one")
	}
	if err := errors.New("not of the wire"); !errors.Is(Error(err), err) {
		t.Error("an error that is no status was changed")
	}
}

// FuzzRead reads arbitrary messages. What was read can be sent, and reads the same again.
func FuzzRead(f *testing.F) {
	for _, seed := range []proto.Message{
		FromTaskHandle(&driver.TaskHandle{Config: wholeTask()}), &drivers.TaskHandle{Config: &drivers.TaskConfig{}},
		FromNode(&driver.Node{Topology: &driver.Topology{Cores: []driver.Core{{}}}}),
		FromSchema(driver.TaskSchema()), FromEvent(&driver.Event{Timestamp: time.Unix(1, 1)}),
		FromSample("t", &procstats.Sample{}, nil, 0),
		FromTaskStatus(&driver.TaskStatus{Exit: &driver.ExitResult{}, Network: &driver.NetworkOverride{}}),
		nestedSchema(maxSchemaDepth), nestedSchema(1000), &hclspec.Spec{Kind: &hclspec.Spec_Default{}},
		&drivers.TaskStats{TachoSample: []byte{0xff}}, &drivers.TaskConfig{Resources: &drivers.Resources{}},
	} {
		encoded, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		stable(t, data, ToTaskHandle, FromTaskHandle)
		stable(t, data, ToTaskConfig, FromTaskConfig)
		stable(t, data, ToTaskStatus, FromTaskStatus)
		stable(t, data, ToEvent, FromEvent)
		stable(t, data, ToCapabilities, FromCapabilities)
		stable(t, data, ToNetworkIsolation, FromNetworkIsolation)
		stable(t, data, ToNode, FromNode)
		fuzzStats(t, data)
		fuzzSchema(t, data)
		var m drivers.FingerprintResponse
		if proto.Unmarshal(data, &m) == nil {
			overWire(t, FromFingerprint(ToFingerprint(&m)))
		}
		var config base.SetConfigRequest
		if proto.Unmarshal(data, &config) == nil {
			ToNode(config.GetNomadConfig())
		}
	})
}

type message[M any] interface {
	*M
	proto.Message
}

func stable[M any, P message[M], T any](t *testing.T, data []byte, read func(P) T, make func(T) P) {
	t.Helper()
	m := P(new(M))
	if proto.Unmarshal(data, m) != nil {
		return
	}
	first := read(m)
	sent := make(first)
	if sent == nil {
		return
	}
	same(t, first, read(overWire(t, sent)))
}

func fuzzStats(t *testing.T, data []byte) {
	var m drivers.TaskStats
	if proto.Unmarshal(data, &m) != nil {
		return
	}
	sample, err := ToSample(&m)
	if err != nil {
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%v is not %v", err, driver.ErrInvalid)
		}
		return
	}
	// Readings may be NaN, and then differ from themselves: that they can be sent is enough.
	overWire(t, FromSample("t", sample, sample, 2000))
}

func fuzzSchema(t *testing.T, data []byte) {
	var m hclspec.Spec
	if proto.Unmarshal(data, &m) != nil {
		return
	}
	spec, err := ToSchema(&m)
	if err != nil {
		return
	}
	again, err := ToSchema(overWire(t, FromSchema(spec)))
	if err != nil {
		t.Fatal(err)
	}
	same(t, spec, again)
}
