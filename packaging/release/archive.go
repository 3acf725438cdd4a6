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
)

// archive writes the archive of a system, a zip for Windows, and returns its name.
func (r *release) archive(t target, binary string) (string, error) {
	base := fmt.Sprintf("tacho-%s-%s-%s", r.plain(), t.os, t.arch)
	name := base + ".tar.gz"
	if t.os == "windows" {
		name = base + ".zip"
	}
	file, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	if t.os == "windows" {
		err = r.writeZip(file, base, binary)
	} else {
		err = r.writeTar(file, base, binary)
	}
	return name, errors.Join(err, file.Close())
}

// addFiles adds the binary and the staged files, in a fixed order.
func (r *release) addFiles(base, binary string, add func(name string, mode fs.FileMode, content []byte) error) error {
	files := []string{binary}
	for _, pattern := range []string{"*.md", "LICENSE", "completion/*", "man/*"} {
		found, err := filepath.Glob(filepath.Join(r.staged, pattern))
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	for i, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, mode := filepath.Base(file), fs.FileMode(0o755)
		if i > 0 {
			mode = 0o644
			if name, err = filepath.Rel(r.staged, file); err != nil {
				return err
			}
		}
		if err := add(path.Join(base, filepath.ToSlash(name)), mode, content); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) writeTar(file io.Writer, base, binary string) error {
	compressed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(compressed)
	err = r.addFiles(base, binary, func(name string, mode fs.FileMode, content []byte) error {
		header := &tar.Header{
			Name: name, Mode: int64(mode), Size: int64(len(content)), ModTime: r.when, Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	})
	return errors.Join(err, w.Close(), compressed.Close())
}

func (r *release) writeZip(file io.Writer, base, binary string) error {
	w := zip.NewWriter(file)
	err := r.addFiles(base, binary, func(name string, mode fs.FileMode, content []byte) error {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: r.when}
		header.SetMode(mode)
		part, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		_, err = part.Write(content)
		return err
	})
	return errors.Join(err, w.Close())
}
