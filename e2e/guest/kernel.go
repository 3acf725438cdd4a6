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

const metapackage = "linux-image-cloud-amd64"

// suites says where a kernel series comes from.
func suites() map[string]string {
	return map[string]string{
		"6.1":  "bookworm",
		"6.12": "bookworm-backports",
	}
}

// drivers are the modules that a guest needs, each after those it depends on. A kernel has some of
// them built in.
func drivers() []string {
	return []string{
		"virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev",
		"virtio_pci", "virtio_console", "virtio_blk",
	}
}

// kernel is an unpacked kernel in the cache.
type kernel struct {
	series string // "6.1"
	dir    string
}

func (k kernel) image() string { return filepath.Join(k.dir, "vmlinuz") }

// modules returns the files of the drivers that are not built in, in loading order.
func (k kernel) modules() ([]string, error) {
	var files []string
	for _, name := range drivers() {
		file := filepath.Join(k.dir, name+".ko")
		if _, err := os.Stat(file); err == nil {
			files = append(files, file)
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return files, nil
}

// findKernel returns the newest fetched kernel of the series.
func findKernel(cache, series string) (kernel, error) {
	// The link is resolved once: a fetch at the same time moves it to another folder.
	dir, err := filepath.EvalSymlinks(filepath.Join(cache, "kernels", series))
	if errors.Is(err, os.ErrNotExist) {
		return kernel{}, fmt.Errorf("no kernel %s here: fetch it with \"guest kernels %s\"", series, series)
	}
	return kernel{series, dir}, err
}

// fetchKernel brings the newest kernel of the series from the archive at mirror into the cache.
func fetchKernel(ctx context.Context, cache, mirror, series string) (kernel, error) {
	suite, ok := suites()[series]
	if !ok {
		return kernel{}, fmt.Errorf("unknown kernel %q: there are %s", series, strings.Join(known(), ", "))
	}
	unlock, err := lock(filepath.Join(cache, "kernels.lock"))
	if err != nil {
		return kernel{}, err
	}
	defer unlock()

	work, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return kernel{}, err
	}
	defer os.RemoveAll(work)
	a, err := newApt(work, mirror, suite)
	if err != nil {
		return kernel{}, err
	}
	found, deb, err := a.download(ctx, metapackage)
	if err != nil {
		return kernel{}, fmt.Errorf("kernel %s of %s: %w", series, suite, err)
	}
	if !strings.HasPrefix(found.version, series+".") {
		return kernel{}, fmt.Errorf("%s of %s is now %s, not a %s", metapackage, suite, found.version, series)
	}

	dir := filepath.Join(cache, "kernels", strings.TrimPrefix(found.name, "linux-image-")+"_"+found.version)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		fresh := filepath.Join(work, "kernel")
		if err := unpack(ctx, deb, fresh); err != nil {
			return kernel{}, err
		}
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return kernel{}, err
		}
		if err := os.Rename(fresh, dir); err != nil {
			return kernel{}, err
		}
	} else if err != nil {
		return kernel{}, err
	}
	link := filepath.Join(work, "link")
	if err := os.Symlink(filepath.Base(dir), link); err != nil {
		return kernel{}, err
	}
	return kernel{series, dir}, os.Rename(link, filepath.Join(cache, "kernels", series))
}

// unpack takes the kernel and its drivers out of a package into the folder dir.
func unpack(ctx context.Context, deb, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	cmd.Stderr = os.Stderr
	files, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = errors.Join(extract(ctx, tar.NewReader(files), dir), cmd.Wait())
	if err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "vmlinuz")); err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
	}
	return nil
}

func extract(ctx context.Context, files *tar.Reader, dir string) error {
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		base := path.Base(header.Name)
		driver, compressed := strings.CutSuffix(base, ".ko.xz")
		driver = strings.TrimSuffix(driver, ".ko")
		var data io.Reader = files
		switch {
		case header.Typeflag != tar.TypeReg:
			continue
		case strings.HasPrefix(base, "vmlinuz-"):
			base = "vmlinuz"
		case driver != base && slices.Contains(drivers(), driver):
			base = driver + ".ko"
		default:
			continue
		}
		if compressed { // init_module takes plain modules only
			err = unxz(ctx, data, filepath.Join(dir, base))
		} else {
			err = save(data, filepath.Join(dir, base))
		}
		if err != nil {
			return err
		}
	}
}

func unxz(ctx context.Context, data io.Reader, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "xz", "--decompress", "--stdout")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = data, f, os.Stderr
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("xz: %w (package xz-utils)", err), f.Close())
	}
	return f.Close()
}

func save(data io.Reader, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, data)
	return errors.Join(err, f.Close())
}

func known() []string {
	return slices.Sorted(maps.Keys(suites()))
}
