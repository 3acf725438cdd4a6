// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// standardPrograms are in every guest.
func standardPrograms() []string {
	return []string{"/bin/sh", "/bin/sleep", "/usr/bin/seq", "/bin/cat", "/bin/true", "/bin/false", "/bin/dd"}
}

// programSuite is the suite of Debian that programs for another processor come from.
const programSuite = "bookworm"

// programRoot is where the programs for a processor are: the host's own, or what fetchPrograms unpacked.
func programRoot(cache, arch string) string {
	if arch == runtime.GOARCH {
		return "/"
	}
	return filepath.Join(cache, "programs", arch+"-"+programSuite)
}

// fetchPrograms brings the programs that tests use into the cache, for a processor that is not the host's.
func fetchPrograms(ctx context.Context, cache, archive, arch string) error {
	root := programRoot(cache, arch)
	if exists(root) {
		return nil
	}
	work, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	a, err := newApt(ctx, work, archive, programSuite, arch)
	if err != nil {
		return err
	}
	debs, err := a.closure(ctx, []string{"dash", "coreutils", "iproute2", "systemd", "dbus-daemon"})
	if err != nil {
		return err
	}
	fresh := filepath.Join(work, "root")
	for _, deb := range debs {
		if text, err := exec.CommandContext(ctx, "dpkg-deb", "-x", deb, fresh).CombinedOutput(); err != nil {
			return fmt.Errorf("unpack %s: %w\n%s", filepath.Base(deb), err, text)
		}
	}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return err
	}
	if err := os.Rename(fresh, root); err != nil && !exists(root) { // another run may be faster
		return err
	}
	return nil
}

// withLibraries returns programs below root with the libraries that they are linked with. A program that is not there is
// left out: tests say what they miss.
func withLibraries(root string, programs []string) (mounts, error) {
	var found mounts
	for _, program := range programs {
		if _, err := find(root, program); err != nil {
			continue
		}
		if err := addELF(&found, root, program); err != nil {
			return nil, fmt.Errorf("libraries of %s: %w", program, err)
		}
	}
	return found, nil
}

// addELF adds a program or library with those that it needs.
func addELF(found *mounts, root, name string) error {
	if slices.ContainsFunc(*found, func(m mount) bool { return m.guest == name }) {
		return nil
	}
	host, err := find(root, name)
	if err != nil {
		return err
	}
	*found = append(*found, mount{host, name})
	f, err := elf.Open(host)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			text := make([]byte, p.Filesz)
			if _, err := p.ReadAt(text, 0); err != nil {
				return err
			}
			if err := addELF(found, root, strings.TrimRight(string(text), "\x00")); err != nil {
				return err
			}
		}
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	runpath, _ := f.DynString(elf.DT_RUNPATH)
	// A library beside the one that needs it has been found by the program's path.
	folders := append(runpath, filepath.Dir(name), "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib")
	for _, library := range libraries {
		i := slices.IndexFunc(folders, func(folder string) bool {
			_, err := find(root, filepath.Join(folder, library))
			return err == nil
		})
		if i < 0 {
			return fmt.Errorf("%w: %s", os.ErrNotExist, library)
		}
		if err := addELF(found, root, filepath.Join(folders[i], library)); err != nil {
			return err
		}
	}
	return nil
}

// find returns the file below root that a path of that system means. Since Debian 13 packages have nothing outside /usr.
func find(root, name string) (string, error) {
	for _, prefix := range []string{"", "usr"} {
		path := filepath.Join(root, prefix, name)
		if target, err := os.Readlink(path); err == nil && filepath.IsAbs(target) {
			return find(root, target) // of that system, and not of this one
		}
		file, err := filepath.EvalSymlinks(path)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return file, err
		}
	}
	return "", fmt.Errorf("%w: %s below %s", os.ErrNotExist, name, root)
}
