// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing/fstest"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/command"
)

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
