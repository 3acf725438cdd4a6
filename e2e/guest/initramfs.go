// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"

	"github.com/tachograph/tacho/e2e/guest/plan"
)

const initPackage = "github.com/tachograph/tacho/e2e/guest/init"

// initramfs makes what the guest boots into: init, its plan, the kernel's drivers, the test binaries
// with their package folders and the files asked for.
func initramfs(ctx context.Context, o options, k kernel, cache string) ([]byte, error) {
	init, err := buildInit(ctx, cache, o.arch)
	if err != nil {
		return nil, err
	}
	p := plan.Plan{
		Env:      append(append(environment(os.Environ()), o.env...), "TACHO_GUEST="+o.kernel+"/"+o.cgroup),
		Cgroup:   o.cgroup,
		User:     o.user,
		Delegate: o.delegate,
	}
	var a archive
	var files mounts
	for _, t := range o.tests {
		test := plan.Test{
			Argv:    append([]string{path.Join("/test", filepath.Base(t.binary))}, t.args...),
			Dir:     path.Join("/src", filepath.ToSlash(t.dir)),
			Outputs: t.outputs,
		}
		more, err := packageFiles(t.dir, test.Dir)
		if err = errors.Join(err, static(t.binary)); err != nil {
			return nil, err
		}
		a.folder(test.Dir)
		files = append(append(files, more...), mount{t.binary, test.Argv[0]})
		p.Tests = append(p.Tests, test)
	}
	for _, driver := range k.modules() {
		inside := path.Join("/modules", filepath.Base(driver))
		p.Modules = append(p.Modules, inside)
		files = append(files, mount{driver, inside})
	}
	programs, err := withLibraries(programRoot(cache, o.arch), append(standardPrograms(), o.programs...))
	if err != nil {
		return nil, err
	}
	files = append(files, programs...)
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}

	a.console()
	a.file("/init", 0o755, init)
	a.file(plan.Path, 0o644, text)
	for _, f := range append(files, o.files...) { // what is asked for replaces what is there
		if err := a.tree(f.host, f.guest); err != nil {
			return nil, err
		}
	}
	return a.bytes(), nil
}

// packageFiles are the files of a package folder and its testdata: what a test may expect to be
// there. Folders beside it can be asked for.
func packageFiles(dir, inside string) (mounts, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files mounts
	for _, entry := range entries {
		if name := entry.Name(); entry.Type().IsRegular() || name == "testdata" {
			files = append(files, mount{filepath.Join(dir, name), path.Join(inside, name)})
		}
	}
	return files, nil
}

// buildInit returns the program that is the guest's init. The one in the cache may be of another
// state of the sources: the go command knows.
func buildInit(ctx context.Context, cache, arch string) ([]byte, error) {
	unlock, err := lock(filepath.Join(cache, "init.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	file := filepath.Join(cache, "init-"+arch)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", file, initPackage)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the guest's init: %w\n%s", err, text)
	}
	return os.ReadFile(file)
}

// static returns an error if binary needs a dynamic linker, which a guest has not.
func static(binary string) error {
	f, err := elf.Open(binary)
	if err != nil {
		return fmt.Errorf("read %s: %w", binary, err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return fmt.Errorf("%s is not static: build it with CGO_ENABLED=0 and without -race", binary)
	}
	return nil
}
