// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package skew

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// first is the build that others are held against: one of the first that speak protocol 1. It is named by its commit,
// which every clone with a history has, and never changes until the protocol does.
const first = "fabfa52bc40314981d1883dd9b40f8295f54142c"

// firstName is what the tests call it.
const firstName = "protocol-1"

// otherDir is where the other build's source and binary are, for as long as the tests run.
var otherDir string

func TestMain(m *testing.M) {
	var err error
	if otherDir, err = os.MkdirTemp("", "skew"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := rig.Main(m)
	if err := os.RemoveAll(otherDir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// errNoFirst says why there is no other build.
var errNoFirst = errors.New("this repository does not hold commit " + first + " (a shallow clone does not: git fetch --unshallow)")

// other returns the path of the other build's binary.
func other(t testing.TB) string {
	t.Helper()
	rig.Require(t)
	binary, err := buildOther()
	if errors.Is(err, errNoFirst) {
		t.Skip(err)
	}
	testkit.Must(t, err)
	return binary
}

var buildOther = sync.OnceValues(func() (string, error) {
	if err := os.Chmod(otherDir, 0o755); err != nil {
		return "", err
	}
	source := filepath.Join(otherDir, "source")
	if err := unpack(source); err != nil {
		return "", err
	}
	binary := filepath.Join(otherDir, "tacho")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".")
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", first, err, out)
	}
	return binary, nil
})

// git runs a git command in this repository.
func git(args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// unpack puts its source into a folder, without touching the repository as a work tree of it would.
func unpack(folder string) error {
	if _, err := git("rev-parse", "--verify", "--quiet", first+"^{commit}"); err != nil {
		return errNoFirst
	}
	top, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	archive, err := git("-C", strings.TrimSpace(string(top)), "archive", "--format=tar", first)
	if err != nil {
		return err
	}
	for files := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(header.Name) {
			continue
		}
		path := filepath.Join(folder, header.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		text, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
}
