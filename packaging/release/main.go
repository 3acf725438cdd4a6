// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Command release builds what is published: archives for every system, Debian and RPM packages, and their checksums.
// The same commit gives the same bytes in every directory. "make release" runs it.
//
//	release -version v1.2.3 -time 1700000000 -out dist -nfpm module@version
package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// target is a system that is built for.
type target struct{ os, arch string }

func targets() (all []target) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		all = append(all, target{system, "amd64"}, target{system, "arm64"})
	}
	return all
}

// release is one version on its way to a directory.
type release struct {
	version string // as in v1.2.3
	when    time.Time
	out     string
	nfpm    string
	// only names a target, or is empty for all.
	only string
	// staged has the man pages and completions, and a directory for each target with its binary.
	staged string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := &release{}
	flag.StringVar(&r.version, "version", "v0.0.0-dev", "the `VERSION` to stamp")
	seconds := flag.Int64("time", 0, "the time of all files, in `SECONDS` since 1970")
	flag.StringVar(&r.out, "out", "dist", "the `DIR` for the result")
	flag.StringVar(&r.nfpm, "nfpm", "", "the `MODULE@VERSION` of the packager; none: no packages")
	flag.StringVar(&r.only, "only", "", "build for one `OS/ARCH`")
	flag.Parse()
	r.when = time.Unix(*seconds, 0).UTC()
	if err := r.build(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r *release) build(ctx context.Context) error {
	var err error
	if r.staged, err = os.MkdirTemp("", "tacho-release"); err != nil {
		return err
	}
	defer os.RemoveAll(r.staged)
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if err := r.stageDocs(); err != nil {
		return err
	}
	if r.nfpm != "" {
		fmt.Fprintf(os.Stderr, "release: the first run on a machine builds %s from source: about 12 minutes\n", r.nfpm)
	}
	var made []string
	for _, t := range targets() {
		if r.only != "" && r.only != t.os+"/"+t.arch {
			continue
		}
		names, err := r.buildTarget(ctx, t)
		if err != nil {
			return fmt.Errorf("build for %s/%s: %w", t.os, t.arch, err)
		}
		made = append(made, names...)
	}
	if len(made) == 0 {
		return fmt.Errorf("-only %s: unknown system; known are linux, darwin and windows on amd64 and arm64", r.only)
	}
	return r.writeSums(made)
}

// buildTarget builds the binary for a system and everything that contains it, and returns the names of the files.
func (r *release) buildTarget(ctx context.Context, t target) ([]string, error) {
	binary := filepath.Join(r.staged, t.os+"-"+t.arch, "tacho")
	if t.os == "windows" {
		binary += ".exe"
	}
	stamp := "-s -w -X github.com/tachograph/tacho/internal/version.stamped=" + r.version
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", stamp, "-o", binary, ".")
	if err := run(build, "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch); err != nil {
		return nil, err
	}
	archive, err := r.archive(t, binary)
	if err != nil || t.os != "linux" || r.nfpm == "" {
		return []string{archive}, err
	}
	made := []string{archive}
	for _, packager := range []string{"deb", "rpm"} {
		name := fmt.Sprintf("tacho-%s-%s.%s", r.plain(), t.arch, packager)
		nfpm := exec.CommandContext(ctx, "go", "run", r.nfpm, "package",
			"--config", "packaging/nfpm.yaml", "--packager", packager, "--target", filepath.Join(r.out, name))
		err := run(nfpm, "ARCH="+t.arch, "VERSION="+r.plain(), "STAGED="+r.staged, "BINARY="+binary,
			fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.when.Unix()))
		if err != nil {
			return nil, err
		}
		made = append(made, name)
	}
	return made, nil
}

// plain is the version without its v.
func (r *release) plain() string { return strings.TrimPrefix(r.version, "v") }

// run runs a command in the root of the repository, with more environment.
func run(cmd *exec.Cmd, env ...string) error {
	cmd.Env = append(cmd.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// writeSums writes a checksum for each file, as sha256sum -c reads them.
func (r *release) writeSums(names []string) error {
	slices.Sort(names)
	var sums strings.Builder
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), name)
	}
	if err := os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644); err != nil {
		return err
	}
	_, err := fmt.Fprintf(os.Stdout, "%s, SHA256SUMS:\n%s", r.out, sums.String())
	return err
}
