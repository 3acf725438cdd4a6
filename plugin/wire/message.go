// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package wire turns what package driver says into messages of the hosts' wire. FromX makes a message; Convert makes
// one of what has the same fields on both sides, and reads it. Reading never fails: a missing message reads as the
// zero value.
package wire

import (
	"cmp"
	"context"
	"errors"
	"go/token"
	"reflect"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/proto/hclspec"
	"github.com/tachograph/tacho/plugin/proto/structs"
	"github.com/tachograph/tacho/procstats"
)

// FromSchema returns the message of a schema.
func FromSchema(schema driver.Schema) *hclspec.Spec {
	object := &hclspec.Object{Attributes: make(map[string]*hclspec.Spec, len(schema))}
	for _, key := range schema {
		object.Attributes[key.Name] = fromKey(key)
	}
	return &hclspec.Spec{Kind: &hclspec.Spec_Object{Object: object}}
}

func fromKey(key driver.Key) *hclspec.Spec {
	if key.Type == "" {
		return &hclspec.Spec{Kind: &hclspec.Spec_BlockValue{BlockValue: &hclspec.Block{
			Name: key.Name, Required: key.Required, Nested: FromSchema(key.Block),
		}}}
	}
	attribute := &hclspec.Spec{Kind: &hclspec.Spec_Attr{Attr: &hclspec.Attr{
		Name: key.Name, Type: key.Type, Required: key.Required,
	}}}
	if key.Default == nil {
		return attribute
	}
	literal := &hclspec.Spec{Kind: &hclspec.Spec_Literal{Literal: &hclspec.Literal{Value: key.Literal()}}}
	return &hclspec.Spec{Kind: &hclspec.Spec_Default{Default: &hclspec.Default{Primary: attribute, Default: literal}}}
}

// FromFingerprint returns the message of a driver's state.
func FromFingerprint(f *driver.Fingerprint) *drivers.FingerprintResponse {
	m := &drivers.FingerprintResponse{
		Health:            drivers.FingerprintResponse_HealthState(f.Health),
		HealthDescription: text(f.Description),
	}
	if len(f.Attributes) > 0 {
		m.Attributes = make(map[string]*structs.Attribute, len(f.Attributes))
		for name, a := range f.Attributes {
			switch value := a.(type) {
			case string:
				m.Attributes[name] = &structs.Attribute{Value: &structs.Attribute_StringVal{StringVal: text(value)}}
			case bool:
				m.Attributes[name] = &structs.Attribute{Value: &structs.Attribute_BoolVal{BoolVal: value}}
			}
		}
	}
	return m
}

// Capabilities returns the message of what our driver can do.
func Capabilities(collectsLogs bool) *drivers.DriverCapabilities {
	return &drivers.DriverCapabilities{
		SendSignals: true,
		Exec:        true,
		FsIsolation: drivers.DriverCapabilities_NONE,
		NetworkIsolationModes: []drivers.NetworkIsolationSpec_NetworkIsolationMode{
			drivers.NetworkIsolationSpec_HOST, drivers.NetworkIsolationSpec_GROUP,
		},
		MountConfigs:         drivers.DriverCapabilities_NO_MOUNTS,
		DisableLogCollection: collectsLogs,
	}
}

// FromWait returns the message of an exit with the text of its error.
func FromWait(r *driver.ExitResult) *drivers.WaitTaskResponse {
	m := &drivers.WaitTaskResponse{Result: Convert[drivers.ExitResult](r)}
	if r != nil && r.Err != nil {
		m.Err = text(r.Err.Error())
	}
	return m
}

// FromTaskStatus returns the message of what is known of a task; nil of nil.
func FromTaskStatus(s *driver.TaskStatus) *drivers.InspectTaskResponse {
	if s == nil {
		return nil
	}
	task := Convert[drivers.TaskStatus](s)
	// Hosts dereference the result of tasks that have not ended, and accept the year 1 where they reject a missing
	// moment.
	task.Result = cmp.Or(task.Result, new(drivers.ExitResult))
	task.StartedAt, task.CompletedAt = timestamppb.New(s.StartedAt), timestamppb.New(s.CompletedAt)
	return &drivers.InspectTaskResponse{
		Task: task, Driver: &drivers.TaskDriverStatus{Attributes: texts(s.Attributes)},
	}
}

// FromEvent returns the message of an event.
func FromEvent(e *driver.Event) *drivers.DriverTaskEvent {
	m := Convert[drivers.DriverTaskEvent](e)
	m.Message, m.Annotations = text(e.Message), texts(e.Annotations)
	return m
}

// TaskStats returns Nomad's form of a sample, with rates since an earlier one.
func TaskStats(id string, s, before *procstats.Sample, coreMHz float64) *drivers.TaskStats {
	m := &drivers.TaskStats{
		Id: id, Timestamp: fromTime(s.Wall), AggResourceUsage: TaskUsage(s, before, coreMHz).message(),
		ResourceUsageByPid: make(map[string]*drivers.TaskResourceUsage, len(s.Processes)),
	}
	for pid, used := range ProcessUsage(s, before, coreMHz) {
		m.ResourceUsageByPid[pid] = used.message()
	}
	return m
}

// CoreMHz returns the mean speed of a machine's cores in MHz, as its operator or its host gives it: each counts with
// its base speed, else the highest, else what was guessed. It is 0 if one of them is not known.
func CoreMHz(t *base.ClientTopology) float64 {
	total := t.GetOverrideTotalCompute()
	if total == 0 {
		for _, core := range t.GetCores() {
			mhz := cmp.Or(core.GetBaseSpeed(), core.GetMaxSpeed(), core.GetGuessSpeed())
			if mhz == 0 {
				return 0
			}
			total += mhz
		}
	}
	if len(t.GetCores()) == 0 {
		return 0
	}
	return float64(total) / float64(len(t.GetCores()))
}

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

// ByText returns the errors that hosts recognise by their text.
func ByText() []error {
	return []error{
		driver.ErrTaskNotFound, driver.ErrStatsNotImplemented, driver.ErrTaskRunning, driver.ErrTaskNotRunning,
		driver.ErrTaskExists, driver.ErrCommandNotFound, driver.ErrNotExecutable,
	}
}

// Status returns the status that a driver's error goes over the wire as; nil of nil. What a host looks for by its
// text is of code Unknown, as every plain error is.
func Status(err error) error {
	// Errors of an ended context are marked, too: hosts know of it by the mark alone.
	recoverable, marked := driver.IsRecoverable(err)
	switch {
	case err == nil:
		return nil
	case marked:
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, text(err.Error()))
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, text(err.Error()))
	}
	for _, sentinel := range ByText() {
		if errors.Is(err, sentinel) {
			return status.Error(codes.Unknown, text(err.Error()))
		}
	}
	if marked {
		s := status.New(codes.FailedPrecondition, text(err.Error()))
		if detailed, err := s.WithDetails(&structs.RecoverableError{Recoverable: recoverable}); err == nil {
			s = detailed // a single bool can always be encoded
		}
		return s.Err()
	}
	code := codes.Unknown
	switch {
	case errors.Is(err, driver.ErrUnavailable):
		code = codes.Unavailable
	case errors.Is(err, driver.ErrInvalid):
		code = codes.InvalidArgument
	case errors.Is(err, driver.ErrNotSupported):
		code = codes.Unimplemented
	}
	return status.Error(code, text(err.Error()))
}

// text makes a string that protobuf carries: its strings are UTF-8, while a process's name or a file's path may be
// any bytes.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func texts(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	valid := make(map[string]string, len(m))
	for key, value := range m {
		valid[text(key)] = text(value)
	}
	return valid
}
