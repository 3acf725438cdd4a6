// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/tachograph/tacho/internal/command"
)

// stageDocs writes the man pages and the shell completions from the tree of commands, and copies the files beside the
// binary in archives.
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
		var text bytes.Buffer
		if err := write(&text); err != nil {
			return err
		}
		if err := r.stage(filepath.Join("completion", name), text.Bytes()); err != nil {
			return err
		}
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := r.stage(name, content); err != nil {
			return err
		}
	}
	return nil
}

// stageMan writes one page for each command, in section 1. Debian's are compressed.
func (r *release) stageMan(root *cobra.Command) error {
	dir := filepath.Join(r.staged, "plain")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Source: "tacho " + r.plain(), Manual: "Tachograph", Date: &r.when}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		var compressed bytes.Buffer
		// Without name and time: the same text becomes the same bytes.
		w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
		if err := r.stage(filepath.Join("man", filepath.Base(page)+".gz"), compressed.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// stage writes a file of the release, with the time of the release.
func (r *release) stage(name string, content []byte) error {
	path := filepath.Join(r.staged, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
