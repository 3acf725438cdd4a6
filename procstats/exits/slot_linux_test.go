// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"testing"

	"golang.org/x/sys/unix"
)

// However many processes ask, not more than the bound get a slot, and one that is given up is taken again.
func TestSlots(t *testing.T) {
	var taken []int
	for range mostReaders + 1 { // others on this machine may have some
		fd, err := takeSlot()
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	if len(taken) > mostReaders {
		t.Errorf("%d slots", len(taken))
	}
	for _, fd := range taken {
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	}
	if len(taken) == 0 {
		t.Skip("all slots are taken")
	}
	fd, err := takeSlot()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(fd); err != nil {
		t.Error(err)
	}
}
