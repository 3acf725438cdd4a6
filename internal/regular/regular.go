// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package regular reads files that an operator names: configurations, secrets, certificates, records. Opening a FIFO
// waits for a writer that never comes, and reading a device has no end: both are errors here.
package regular

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrNotRegular is wrapped for directories, FIFOs, sockets and devices.
var ErrNotRegular = errors.New("not a regular file")

// Open opens a regular file for reading. It does not wait.
func Open(path string) (*os.File, error) {
	file, _, err := open(path)
	return file, err
}

func open(path string) (file *os.File, size int64, err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, 0, notRegular(path, info)
	}
	if file, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() { // it was replaced meanwhile
		err = notRegular(path, info)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

func notRegular(path string, info fs.FileInfo) error {
	kind := "special"
	switch mode := info.Mode(); {
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a FIFO"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return fmt.Errorf("%s: %w: it is %s", path, ErrNotRegular, kind)
}

// Read reads a regular file of at most so many bytes. A larger one is an error.
func Read(path string, most int64) ([]byte, error) {
	var text bytes.Buffer
	err := ReadInto(&text, path, most)
	return text.Bytes(), err
}

// ReadInto is Read into a buffer for many files, in place of what it holds.
func ReadInto(text *bytes.Buffer, path string, most int64) error {
	text.Reset()
	file, size, err := open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	text.Grow(int(min(size, most)) + bytes.MinRead) // it is read at once, to its end
	if _, err := text.ReadFrom(io.LimitReader(file, most+1)); err != nil {
		return err
	}
	if int64(text.Len()) > most {
		return fmt.Errorf("%s: more than %d bytes", path, most)
	}
	return nil
}

// mostSecret is more than any token or certificate chain has.
const mostSecret = 1 << 20

// Secret reads a file with a certificate or a key.
func Secret(path string) ([]byte, error) { return Read(path, mostSecret) }

// Certificates reads a file with certificates to trust, in PEM form, or all files of a folder.
func Certificates(path string) (*x509.CertPool, error) {
	files := []string{path}
	if entries, err := os.ReadDir(path); err == nil {
		files = nil
		for _, e := range entries {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	pool, found := x509.NewCertPool(), false
	for _, file := range files {
		text, err := Secret(file)
		if err != nil {
			return nil, err
		}
		found = pool.AppendCertsFromPEM(text) || found
	}
	if !found {
		return nil, fmt.Errorf("%s contains no certificate", path)
	}
	return pool, nil
}

// Token reads a file with one token.
func Token(path string) (string, error) {
	text, err := Secret(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	if err := CheckToken(token); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return token, nil
}

// CheckToken rejects a token that no request can carry in its header.
func CheckToken(token string) error {
	if lines := strings.Count(token, "\n") + 1; lines > 1 {
		return fmt.Errorf("it has %d lines; a token is one line", lines)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("a token has only printable ASCII characters, without spaces")
	}
	return nil
}
