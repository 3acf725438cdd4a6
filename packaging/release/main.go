// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Command release builds what is published: archives for every system, Debian and RPM packages, and their checksums.
// The same commit gives the same bytes in every directory. "make release" runs it.
//
//	release -version v1.2.3 -time 1700000000 -out dist -nfpm module@version
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/command"
	"github.com/tachograph/tacho/internal/command/cli"
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
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace",
		"-ldflags", stamp, "-o", binary, ".")
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

// archive writes the archive of a system, a zip for Windows, and returns its name.
func (r *release) archive(t target, binary string) (string, error) {
	base := fmt.Sprintf("tacho-%s-%s-%s", r.plain(), t.os, t.arch)
	files, err := r.files(base, binary)
	if err != nil {
		return "", err
	}
	name, write := base+".tar.gz", writeTar
	if t.os == "windows" {
		name, write = base+".zip", writeZip
	}
	file, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	return name, errors.Join(write(file, files), file.Close())
}

// files returns what an archive contains, with the same modes, times and owners on every machine.
func (r *release) files(base, binary string) (fs.FS, error) {
	contents := map[string][]string{"": {binary, "LICENSE", "README.md", "CHANGELOG.md"}}
	for _, dir := range []string{"completion", "man"} {
		staged, err := filepath.Glob(filepath.Join(r.staged, dir, "*"))
		if err != nil {
			return nil, err
		}
		contents[dir] = staged
	}
	files := fstest.MapFS{}
	for dir, paths := range contents {
		dir = path.Join(base, dir)
		files[dir] = &fstest.MapFile{Mode: fs.ModeDir | 0o755, ModTime: r.when}
		for _, file := range paths {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			mode := fs.FileMode(0o644)
			if file == binary {
				mode = 0o755
			}
			files[path.Join(dir, filepath.Base(file))] = &fstest.MapFile{Data: content, Mode: mode, ModTime: r.when}
		}
	}
	return files, nil
}

func writeTar(file io.Writer, files fs.FS) error {
	compressed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(compressed)
	return errors.Join(w.AddFS(files), w.Close(), compressed.Close())
}

func writeZip(file io.Writer, files fs.FS) error {
	w := zip.NewWriter(file)
	return errors.Join(w.AddFS(files), w.Close())
}

// stageDocs writes the man pages and the shell completions from the tree of commands.
func (r *release) stageDocs() error {
	root := command.Root()
	if err := r.stageMan(root); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{
		"tacho.bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"_tacho":     root.GenZshCompletion,
		"tacho.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"tacho.ps1":  root.GenPowerShellCompletionWithDesc,
	} {
		if err := r.stage(filepath.Join("completion", name), write); err != nil {
			return err
		}
	}
	return nil
}

// stageMan writes the page of a command and of those below it. Debian's are compressed.
func (r *release) stageMan(cmd *cobra.Command) error {
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() || below.IsAdditionalHelpTopicCommand() {
			if err := r.stageMan(below); err != nil {
				return err
			}
		}
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1.gz"
	return r.stage(filepath.Join("man", name), func(file io.Writer) error {
		// Without name and time: the same text becomes the same bytes.
		w, err := gzip.NewWriterLevel(file, gzip.BestCompression)
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, manPage(cmd, r.plain(), r.when))
		return errors.Join(err, w.Close())
	})
}

// stage writes a file of the release.
func (r *release) stage(name string, write func(io.Writer) error) error {
	path := filepath.Join(r.staged, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// manPage returns the help of a command as a page of the manual, in the macros of man(7).
func manPage(cmd *cobra.Command, version string, when time.Time) string {
	var b strings.Builder
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	day := when.UTC().Format(time.DateOnly)
	fmt.Fprintf(&b, ".TH %q 1 %q %q Tachograph\n", strings.ToUpper(name), day, "tacho "+version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(cmd.Short))
	if !cmd.IsAdditionalHelpTopicCommand() {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR\n", roff(cmd.UseLine()))
	}
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n" + literal(cmd.Example))
	}
	first, rest := cli.Describe(cmd)
	b.WriteString(".SH DESCRIPTION\n")
	for paragraph := range strings.SplitSeq(first+"\n\n"+rest, "\n\n") {
		if strings.HasPrefix(paragraph, " ") {
			b.WriteString(literal(paragraph))
		} else {
			b.WriteString(".PP\n" + roff(paragraph) + "\n")
		}
	}
	for _, section := range append(cli.CommandSections(cmd), cli.FlagSections(cmd)...) {
		fmt.Fprintf(&b, ".SH %q\n", strings.ToUpper(roff(section.Title)))
		for _, row := range section.Rows {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(strings.TrimSpace(row[0])), roff(row[1]))
		}
	}
	return b.String()
}

// literal returns lines as they are.
func literal(text string) string { return ".PP\n.nf\n" + roff(text) + "\n.fi\n" }

// roff escapes what would be a request or an escape sequence.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	text = strings.ReplaceAll(text, "\n.", "\n\\&.")
	text = strings.ReplaceAll(text, "\n'", "\n\\&'")
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
