// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/tachograph/tacho/internal/command"
)

// stageDocs writes the man pages and the shell completions from the tree of commands.
func (r *release) stageDocs() error {
	root := command.Root()
	root.DisableAutoGenTag = true
	header := doc.GenManHeader{Section: "1", Source: "tacho " + r.plain(), Manual: "Tachograph", Date: &r.when}
	if err := r.stageMan(root, header); err != nil {
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
func (r *release) stageMan(cmd *cobra.Command, header doc.GenManHeader) error {
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() && !below.IsAdditionalHelpTopicCommand() {
			if err := r.stageMan(below, header); err != nil {
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
		return errors.Join(doc.GenMan(cmd, &header, w), w.Close())
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
