// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/testkit"
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
		testkit.NoError(t, owner.Close())
	}
	close(stop)
	asking.Wait()
}

func TestOwned(t *testing.T) {
	address := wire.Address{Folder: t.TempDir()}
	if Owned(address) {
		t.Error("a folder that nobody locked is owned")
	}
	if _, err := os.Lstat(filepath.Join(address.Folder, LockFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking made the file: %v", err)
	}
	owner := testkit.Value(lock(t.Context(), address.Folder))(t)
	if !Owned(address) {
		t.Error("an owner is not seen")
	}
	if f, err := lock(t.Context(), address.Folder); !errors.Is(err, ErrOwned) {
		t.Errorf("locked twice: %v, %v", f, err)
	}
	testkit.NoError(t, owner.Close())
	if Owned(address) {
		t.Error("owned after the owner has gone")
	}
}

// TestRemoveFolderWhileItIsWritten removes folders that a reader hands something over in meanwhile.
func TestRemoveFolderWhileItIsWritten(t *testing.T) {
	for range 100 {
		folder := filepath.Join(t.TempDir(), "executor")
		testkit.Must(t, os.Mkdir(folder, 0o700))
		writing := make(chan struct{})
		var writer sync.WaitGroup
		writer.Go(func() {
			for n := range 1000 { // a reader does so once
				err := os.WriteFile(filepath.Join(folder, strconv.Itoa(n)), nil, 0o600)
				if n == 0 {
					close(writing)
				}
				if err != nil {
					return
				}
			}
		})
		<-writing
		testkit.NoError(t, RemoveFolder(folder))
		writer.Wait()
		if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the folder is left: %v", err)
		}
	}
}
