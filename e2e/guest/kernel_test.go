// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExtract(t *testing.T) {
	var deb bytes.Buffer
	w := tar.NewWriter(&deb)
	for _, name := range []string{
		"./boot/vmlinuz-6.1.0-39-cloud-amd64",
		"./boot/System.map-6.1.0-39-cloud-amd64",
		"./lib/modules/6.1.0-39-cloud-amd64/kernel/drivers/block/virtio_blk.ko.xz",
		"./lib/modules/6.1.0-39-cloud-amd64/kernel/drivers/char/virtio_console.ko",
		"./lib/modules/6.1.0-39-cloud-amd64/kernel/drivers/virtio/virtio.ko",
		"./lib/modules/6.1.0-39-cloud-amd64/kernel/drivers/virtio/virtio_mem.ko.xz",
		"./lib/modules/6.1.0-39-cloud-amd64/kernel/net/9p/9pnet_virtio.ko",
		"./usr/share/doc/virtio",
	} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(name)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "kernel")
	k := kernel(dir)
	if err := extract(tar.NewReader(&deb), dir); err != nil {
		t.Fatal(err)
	}

	if text, err := os.ReadFile(k.image()); err != nil || !strings.HasPrefix(string(text), "./boot/vmlinuz-") {
		t.Errorf("vmlinuz: %q, %v", text, err)
	}
	want := []string{
		filepath.Join(dir, "virtio.ko"),
		filepath.Join(dir, "virtio_console.ko"),
		filepath.Join(dir, "virtio_blk.ko.xz"),
	}
	if diff := cmp.Diff(want, k.modules()); diff != "" {
		t.Errorf("modules in loading order (-want +got):\n%s", diff)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1+len(want) {
		t.Errorf("extracted %v, %v: want vmlinuz and %d drivers", all, err, len(want))
	}
}

func TestExtractNothing(t *testing.T) {
	var deb bytes.Buffer
	if err := tar.NewWriter(&deb).Close(); err != nil {
		t.Fatal(err)
	}
	err := extract(tar.NewReader(&deb), filepath.Join(t.TempDir(), "kernel"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("package without a kernel: %v, want %v", err, fs.ErrNotExist)
	}
}

func TestFindKernel(t *testing.T) {
	cache := t.TempDir()
	_, err := findKernel(cache, "6.1")
	if err == nil || !strings.Contains(err.Error(), "guest kernels 6.1") {
		t.Errorf("error %v does not say what to do", err)
	}
	dir := filepath.Join(cache, "kernels", "6.1.0-39")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("6.1.0-39", filepath.Join(cache, "kernels", "6.1")); err != nil {
		t.Fatal(err)
	}
	k, err := findKernel(cache, "6.1")
	if err != nil || filepath.Base(string(k)) != "6.1.0-39" {
		t.Errorf("got %v, %v, want the folder behind the link", k, err)
	}
}
