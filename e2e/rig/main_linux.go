// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

const (
	workloadVariable = "TACHO_WORKLOAD"
	// dirVariable says where the files of runs go: on a disk, where I/O is to be measured.
	dirVariable = "TACHO_E2E_DIR"
	// triesVariable says how often tests try what comes out by chance.
	triesVariable = "TACHO_TRIES"
)

// Main runs the tests of a package, with the binaries that they need at hand, and returns the exit code for
// TestMain.
func Main(m *testing.M) int {
	if !wanted() {
		return m.Run()
	}
	dir, err := provide()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		return 1
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		return max(code, 1)
	}
	return code
}

// Tacho returns the path of the binary under test.
func Tacho() string { return os.Getenv(tachoVariable) }

// Workload returns the path of the built e2e/truth/workload.
func Workload() string { return os.Getenv(workloadVariable) }

// Tries returns how often a test tries what comes out by chance: TACHO_TRIES, else as usual.
func Tries(usual int) int {
	if n, err := strconv.Atoi(os.Getenv(triesVariable)); err == nil && n > 0 {
		return n
	}
	return usual
}

// provide puts both binaries into a folder that every user can reach, and their paths into the environment.
func provide() (dir string, err error) {
	dir, err = os.MkdirTemp("", "rig")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	for variable, pkg := range map[string]string{
		tachoVariable:    "github.com/tachograph/tacho",
		workloadVariable: "github.com/tachograph/tacho/e2e/truth/workload",
	} {
		binary := filepath.Join(dir, filepath.Base(pkg))
		if given := os.Getenv(variable); given != "" {
			err = copyFile(given, binary)
		} else {
			err = build(pkg, binary)
		}
		if err != nil {
			return "", err
		}
		if err := os.Setenv(variable, binary); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func build(pkg, binary string) error {
	cmd := exec.Command("go", "build", "-o", binary, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
