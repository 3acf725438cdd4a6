// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// suites says where a kernel series comes from.
func suites() map[string]string {
	return map[string]string{"6.1": "bookworm", "6.12": "bookworm-backports"}
}

func known() []string { return slices.Sorted(maps.Keys(suites())) }

// drivers are the modules that a guest needs, each after those it depends on. A kernel has some of
// them built in.
func drivers() []string {
	return []string{
		"virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev",
		"virtio_pci", "virtio_console", "virtio_blk", "dm-mod", "loop", "veth",
	}
}

// kernel is the folder of an unpacked kernel in the cache.
type kernel string

func (k kernel) image() string { return filepath.Join(string(k), "vmlinuz") }

// modules returns the files of the drivers that are not built in, in loading order.
func (k kernel) modules() []string {
	var files []string
	for _, name := range drivers() {
		for _, suffix := range []string{".ko", ".ko.xz"} {
			if file := filepath.Join(string(k), name+suffix); exists(file) {
				files = append(files, file)
			}
		}
	}
	return files
}

// findKernel returns the newest fetched kernel of the series.
func findKernel(cache, series string) (kernel, error) {
	// The link is resolved once: a fetch at the same time may move it.
	dir, err := filepath.EvalSymlinks(filepath.Join(cache, "kernels", series))
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("no kernel %s here: fetch it with \"guest kernels %s\"", series, series)
	}
	return kernel(dir), err
}

// fetchKernel brings the newest kernel of the series from the archive at mirror into the cache.
func fetchKernel(ctx context.Context, cache, mirror, series string) (kernel, error) {
	suite, ok := suites()[series]
	if !ok {
		return "", fmt.Errorf("unknown: there are %s", strings.Join(known(), ", "))
	}
	work, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	a, err := newApt(work, mirror, suite)
	if err != nil {
		return "", err
	}
	name, version, err := a.kernel(ctx)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(version, series+".") {
		return "", fmt.Errorf("%s of %s is now %s", metapackage, suite, version)
	}
	// Guests may be starting from what is there: folders stay, the link changes in one step.
	// A folder has the drivers that were wanted when it was made: with others it is another one.
	folder := fmt.Sprintf("%s-%d", version, len(drivers()))
	dir := filepath.Join(cache, "kernels", folder)
	if !exists(dir) {
		deb, err := a.download(ctx, name, version)
		if err != nil {
			return "", err
		}
		fresh := filepath.Join(work, "kernel")
		if err := unpack(ctx, deb, fresh); err != nil {
			return "", fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
		}
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return "", err
		}
		if err := os.Rename(fresh, dir); err != nil && !exists(dir) { // somebody else may be faster
			return "", err
		}
	}
	link := filepath.Join(work, "link")
	if err := os.Symlink(folder, link); err != nil {
		return "", err
	}
	return kernel(dir), os.Rename(link, filepath.Join(cache, "kernels", series))
}

// unpack takes the kernel and its drivers out of a package into the folder dir.
func unpack(ctx context.Context, deb, dir string) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	cmd.Stderr = os.Stderr
	files, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return errors.Join(extract(tar.NewReader(files), dir), cmd.Wait())
}

func extract(files *tar.Reader, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			_, err := os.Stat(kernel(dir).image())
			return err
		}
		if err != nil {
			return err
		}
		base := path.Base(header.Name)
		driver, module := strings.CutSuffix(strings.TrimSuffix(base, ".xz"), ".ko")
		switch {
		case strings.HasPrefix(base, "vmlinuz-"):
			base = "vmlinuz"
		case !module || !slices.Contains(drivers(), driver):
			continue
		}
		data, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, base), data, 0o644); err != nil {
			return err
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
