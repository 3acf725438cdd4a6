// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"errors"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

func FuzzState(f *testing.F) {
	f.Add(1, []byte(`{"address":{"folder":"/x","boot_id":"b","executor":{"PID":1,"Start":2}}}`))
	f.Add(2, []byte(`{}`))
	f.Fuzz(func(t *testing.T, version int, data []byte) {
		s, err := decodeState(&TaskHandle{Version: version, DriverState: data})
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%v does not wrap %v", err, ErrInvalid)
			}
			return
		}
		if s.Address.Folder == "" || s.Address.Executor.PID <= 0 {
			t.Errorf("accepted %+v", s)
		}
		encoded := testkit.Value(s.encode())(t)
		again := testkit.Value(decodeState(&TaskHandle{Version: HandleVersion, DriverState: encoded}))(t)
		testkit.Diff(t, "state", s, again)
	})
}
