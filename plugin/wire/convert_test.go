// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"go/token"
	"reflect"
	"slices"
	"testing"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

// TestEveryFieldHasACounterpart holds that no field of a driver's type is forgotten by its message.
func TestEveryFieldHasACounterpart(t *testing.T) {
	for _, pair := range []struct {
		ours, wire any
		byHand     []string
	}{
		{driver.TaskConfig{}, drivers.TaskConfig{}, []string{"Block", "Persisted", "Sampled"}},
		{driver.Resources{}, drivers.Resources{}, nil},
		{driver.LinuxResources{}, drivers.LinuxResources{}, nil},
		{driver.Mount{}, drivers.Mount{}, nil},
		{driver.NetworkIsolation{}, drivers.NetworkIsolationSpec{}, nil},
		{driver.TaskHandle{}, drivers.TaskHandle{}, nil},
		{driver.ExitResult{}, drivers.ExitResult{}, []string{"Err", "Retryable"}},
		{driver.TaskStatus{}, drivers.TaskStatus{}, []string{"Attributes"}},
		{driver.Event{}, drivers.DriverTaskEvent{}, nil},
	} {
		ours, wire := reflect.TypeOf(pair.ours), reflect.TypeOf(pair.wire)
		for field := range ours.Fields() {
			_, found := wire.FieldByNameFunc(func(n string) bool {
				return token.IsExported(n) && counterpart(n) == counterpart(field.Name)
			})
			if found == slices.Contains(pair.byHand, field.Name) {
				t.Errorf("%s.%s has a counterpart: %t", ours, field.Name, found)
			}
		}
	}
}
