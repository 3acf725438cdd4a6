// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// series is a line of kernels and the suite of Debian that has it. The one of the suite in the making moves on: it is
// named by its first number alone.
type series struct{ name, suite string }

func allSeries() []series {
	return []series{{"5.10", "bullseye"}, {"6.1", "bookworm"}, {"6.12", "trixie"}, {"7", "forky"}}
}

func known() string {
	var names []string
	for _, s := range allSeries() {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// seriesOf returns the series that a name such as "6.12", "7" or "7.2" asks for.
func seriesOf(name string) (series, error) {
	for _, s := range allSeries() {
		if isOf(name, s.name) {
			return s, nil
		}
	}
	return series{}, fmt.Errorf("unknown kernel %q: there are %s", name, known())
}

// isOf is whether a version is of a series.
func isOf(version, series string) bool {
	return version == series || strings.HasPrefix(version, series+".")
}

// drivers are the modules that a guest needs, each after those it depends on. A kernel has some of
// them built in.
func drivers() []string {
	return []string{
		"virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev",
		"virtio_pci", "virtio_console", "virtio_blk", "dax", "dm-mod", "loop", "veth",
	}
}

// kernel is the folder of an unpacked kernel in the cache.
type kernel string

func (k kernel) image() string { return filepath.Join(string(k), "vmlinuz") }

// modules returns the files of the drivers that are not built in, in loading order.
func (k kernel) modules() []string {
	var files []string
	for _, name := range drivers() {
		for _, suffix := range []string{".ko", ".ko.xz", ".ko.zst"} {
			if file := filepath.Join(string(k), name+suffix); exists(file) {
				files = append(files, file)
			}
		}
	}
	return files
}

// findKernel returns the newest kernel of the series name that has been fetched.
func findKernel(cache, name, arch string) (kernel, error) {
	fetch := fmt.Sprintf("fetch it with \"guest kernels %s/%s\"", name, arch)
	s, err := seriesOf(name)
	if err != nil {
		return "", err
	}
	// The link is resolved once: a fetch at the same time may move it.
	dir, err := filepath.EvalSymlinks(filepath.Join(cache, "kernels", arch, s.name))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("no kernel %s for %s here: %s", name, arch, fetch)
	case err == nil && !isOf(filepath.Base(dir), name):
		return "", fmt.Errorf("the kernel here is %s, not %s: %s", filepath.Base(dir), name, fetch)
	}
	return kernel(dir), err
}

// fetchKernel brings the newest kernel of the series into the cache.
func fetchKernel(ctx context.Context, cache, archive, name, arch string) (kernel, error) {
	s, err := seriesOf(name)
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	a, err := newApt(ctx, work, archive, s.suite, arch)
	if err != nil {
		return "", err
	}
	version, packages, err := a.kernel(ctx, "linux-image-cloud-"+arch)
	if err != nil {
		return "", err
	}
	if !isOf(version, name) {
		return "", fmt.Errorf("the kernel of %s is now %s", s.suite, version)
	}
	// Guests may be starting from what is there: folders stay, the link changes in one step.
	// A folder has the drivers that were wanted when it was made: with others it is another one.
	folder := fmt.Sprintf("%s-%d", version, len(drivers()))
	dir := filepath.Join(cache, "kernels", arch, folder)
	if !exists(dir) {
		debs, err := a.download(ctx, packages)
		if err != nil {
			return "", err
		}
		fresh := filepath.Join(work, "kernel")
		if err := unpack(ctx, debs, fresh); err != nil {
			return "", fmt.Errorf("unpack %s: %w", packages, err)
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
	return kernel(dir), os.Rename(link, filepath.Join(cache, "kernels", arch, s.name))
}

// unpack takes the kernel and its drivers out of packages into the folder dir.
func unpack(ctx context.Context, debs []string, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, deb := range debs {
		cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
		cmd.Stderr = os.Stderr
		files, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		if err := errors.Join(extract(tar.NewReader(files), dir), cmd.Wait()); err != nil {
			return err
		}
	}
	_, err := os.Stat(kernel(dir).image())
	return err
}

func extract(files *tar.Reader, dir string) error {
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		base := path.Base(header.Name)
		driver, _, module := strings.Cut(base, ".ko")
		switch {
		case header.Typeflag == tar.TypeReg && (base == "vmlinuz" || strings.HasPrefix(base, "vmlinuz-")):
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
