// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// entry is one file of an archive.
type entry struct {
	name    string
	mode    fs.FileMode
	content []byte
}

// archive writes the archive of a system, a zip for Windows, and returns its name.
func (r *release) archive(t target, binary string) (string, error) {
	base := fmt.Sprintf("tacho-%s-%s-%s", r.plain(), t.os, t.arch)
	entries, err := r.entries(base, binary)
	if err != nil {
		return "", err
	}
	name, write := base+".tar.gz", r.writeTar
	if t.os == "windows" {
		name, write = base+".zip", r.writeZip
	}
	file, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	return name, errors.Join(write(file, entries), file.Close())
}

// entries are the binary, and what was staged for all, in a fixed order.
func (r *release) entries(base, binary string) ([]entry, error) {
	files := []string{binary}
	for _, pattern := range []string{"*.md", "LICENSE", "completion/*", "man/*"} {
		found, err := filepath.Glob(filepath.Join(r.staged, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	var entries []entry
	for i, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name, mode := filepath.Base(file), fs.FileMode(0o755)
		if i > 0 {
			mode = 0o644
			if name, err = filepath.Rel(r.staged, file); err != nil {
				return nil, err
			}
		}
		entries = append(entries, entry{path.Join(base, filepath.ToSlash(name)), mode, content})
	}
	return entries, nil
}

func (r *release) writeTar(file *os.File, entries []entry) error {
	compressed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(compressed)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(e.content)), ModTime: r.when, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(e.content); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), compressed.Close())
}

func (r *release) writeZip(file *os.File, entries []entry) error {
	w := zip.NewWriter(file)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.when}
		header.SetMode(e.mode)
		part, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := part.Write(e.content); err != nil {
			return err
		}
	}
	return w.Close()
}
