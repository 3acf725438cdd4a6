// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tachograph/tacho/executor/wire"
)

// Whoever asks for the owner holds the lock for a moment, which must not be taken for one.
func TestLockBesideWhoAsks(t *testing.T) {
	address := wire.Address{Folder: t.TempDir()}
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					Owned(address)
				}
			}
		})
	}
	for range 200 {
		owner, err := lock(t.Context(), address.Folder)
		if err != nil {
			t.Error(err)
			break
		}
		if err := owner.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	asking.Wait()
}

func TestOwned(t *testing.T) {
	address := wire.Address{Folder: t.TempDir()}
	if Owned(address) {
		t.Error("a folder that nobody locked is owned")
	}
	if _, err := os.Lstat(filepath.Join(address.Folder, lockFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking made the file: %v", err)
	}
	owner, err := lock(t.Context(), address.Folder)
	if err != nil {
		t.Fatal(err)
	}
	if !Owned(address) {
		t.Error("an owner is not seen")
	}
	if f, err := lock(t.Context(), address.Folder); !errors.Is(err, ErrOwned) {
		t.Errorf("locked twice: %v, %v", f, err)
	}
	if err := owner.Close(); err != nil {
		t.Error(err)
	}
	if Owned(address) {
		t.Error("owned after the owner has gone")
	}
}
