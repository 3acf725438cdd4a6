// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"

	"github.com/tachograph/tacho/e2e/guest/plan"
)

const (
	initPackage = "github.com/tachograph/tacho/e2e/guest/init"
	source      = "/src" // the module's root in the guest
)

// writeInitramfs writes what the guest boots into: init, its plan, the kernel's drivers, the test
// binary, the testdata folder of the package folder dir and the files asked for.
func writeInitramfs(ctx context.Context, w io.Writer, o options, k kernel, cache, dir string) error {
	if err := static(o.binary); err != nil {
		return err
	}
	root, err := moduleRoot(dir)
	if err != nil {
		return err
	}
	inside, err := filepath.Rel(root, dir)
	if err != nil {
		return err
	}
	drivers, err := k.modules()
	if err != nil {
		return err
	}
	p := plan.Plan{
		Argv:     append([]string{path.Join("/test", filepath.Base(o.binary))}, o.args...),
		Dir:      path.Join(source, filepath.ToSlash(inside)),
		Env:      append(environment(os.Environ()), "TACHO_GUEST="+o.kernel+"/"+o.cgroup),
		Cgroup:   o.cgroup,
		User:     o.user,
		Delegate: o.delegate,
		Outputs:  outputs(o.args),
	}

	a := newArchive(w)
	// Without it init has neither stdin nor stdout: the kernel opens it before devtmpfs is there.
	a.device("/dev/console", 0o600, 5, 1)
	if err := addInit(ctx, a, cache); err != nil {
		return err
	}
	for _, driver := range drivers {
		p.Modules = append(p.Modules, path.Join("/modules", filepath.Base(driver)))
		a.copy(driver, p.Modules[len(p.Modules)-1])
	}
	a.copy(o.binary, p.Argv[0])
	a.folder(p.Dir, 0o755)
	if testdata := filepath.Join(dir, "testdata"); exists(testdata) {
		a.tree(testdata, path.Join(p.Dir, "testdata"))
	}
	for _, f := range o.files {
		a.tree(f.host, f.guest)
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	a.file(plan.Path, 0o644, string(text))
	return a.close()
}

// addInit builds the guest's init and adds it. The go command knows whether the one in the cache
// is still right.
func addInit(ctx context.Context, a *archive, cache string) error {
	unlock, err := lock(filepath.Join(cache, "init.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	file := filepath.Join(cache, "init")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", file, initPackage)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the guest's init: %w\n%s", err, text)
	}
	a.copy(file, "/init")
	return nil
}

// static says why binary cannot run where there is no C library.
func static(binary string) error {
	f, err := elf.Open(binary)
	if err != nil {
		return fmt.Errorf("read %s: %w", binary, err)
	}
	defer f.Close()
	if f.Machine != elf.EM_X86_64 {
		return fmt.Errorf("%s is for %v: guests are x86-64", binary, f.Machine)
	}
	for _, program := range f.Progs {
		if program.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not static: build it with CGO_ENABLED=0 and without -race", binary)
		}
	}
	return nil
}

func moduleRoot(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if exists(filepath.Join(at, "go.mod")) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod in %s or above", dir)
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, os.ErrNotExist)
}
