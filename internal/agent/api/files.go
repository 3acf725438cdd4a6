// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"strconv"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
)

// fileInfo is Nomad's AllocFileInfo.
type fileInfo struct {
	Name        string
	IsDir       bool
	Size        int64
	FileMode    string
	ModTime     time.Time
	ContentType string `json:",omitempty"`
}

func newFileInfo(info fs.FileInfo) fileInfo {
	shown := fileInfo{
		Name: info.Name(), IsDir: info.IsDir(), Size: info.Size(), FileMode: info.Mode().String(), ModTime: info.ModTime(),
	}
	if !shown.IsDir {
		shown.ContentType = mime.TypeByExtension(path.Ext(shown.Name))
	}
	return shown
}

func (s *Server) listFiles(q *request, a *allocation.Allocation) (any, error) {
	infos, err := a.Dir.List(q.values.Get("path"))
	shown := make([]fileInfo, 0, len(infos))
	for _, info := range infos {
		shown = append(shown, newFileInfo(info))
	}
	return shown, fileError(err)
}

func (s *Server) statFile(q *request, a *allocation.Allocation) (any, error) {
	info, err := a.Dir.Stat(q.values.Get("path"))
	if err != nil {
		return nil, fileError(err)
	}
	return newFileInfo(info), nil
}

// fileError makes errors of the caller out of those of its path.
func fileError(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &problem{http.StatusForbidden, err.Error()}
	case errors.Is(err, fs.ErrInvalid):
		return badRequest(err.Error())
	}
	return err
}

// openFile opens the file that a request names.
func (s *Server) openFile(q *request) (*os.File, error) {
	a, err := s.agent.Snapshot().Allocation(q.id())
	if err != nil {
		return nil, err
	}
	f, err := a.Dir.Open(q.values.Get("path"))
	return f, fileError(err)
}

// readFile sends the content of a file, or a part of it.
func (s *Server) readFile(ctx context.Context, w http.ResponseWriter, q *request) error {
	offset := int64(q.number("offset"))
	limit := param(&q.params, "limit", 0, "a number", func(text string) (int64, error) {
		return strconv.ParseInt(text, 10, 64) // below 1 means none
	})
	if q.err != nil {
		return q.err
	}
	f, err := s.openFile(q)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err == nil {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		return err
	}
	left := max(0, info.Size()-offset)
	if limit > 0 {
		left = min(left, limit)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	out := &frames{out: s.newStreamWriter(w, q), plain: true}
	s.sendFile(ctx, out, &openFile{Reader: io.LimitReader(f, left)}, false)
	return nil
}

// streamFile sends a file in frames, and what is added to it.
func (s *Server) streamFile(ctx context.Context, w http.ResponseWriter, q *request) error {
	offset, fromEnd := int64(q.number("offset")), q.either("origin", "start", "start", "end") == "end"
	follow := q.flag("follow") || q.values.Get("follow") == ""
	if q.err != nil {
		return q.err
	}
	f, err := s.openFile(q)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	at, err := seekTo(f, offset, fromEnd)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	open := &openFile{Reader: f, file: f, at: at, path: q.values.Get("path"), again: func() (*os.File, error) {
		return s.openFile(q)
	}}
	s.sendFile(ctx, &frames{out: s.newStreamWriter(w, q)}, open, follow)
	return nil
}

// openFile is a file of an allocation that is read.
type openFile struct {
	io.Reader

	file *os.File
	at   int64
	path string
	// again opens the path again.
	again func() (*os.File, error)
}

func (f *openFile) read(p []byte) (int, error) {
	n, err := f.Read(p)
	f.at += int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (f *openFile) position() (file string, offset int64) { return f.path, f.at }

func (f *openFile) check(thorough bool) (event string, over bool) {
	info, err := f.file.Stat()
	if err == nil && info.Size() < f.at {
		f.at, err = f.file.Seek(0, io.SeekStart)
		return "file truncated", err != nil
	}
	if thorough && f.replaced(info) {
		return "file deleted", true
	}
	return "", false
}

// replaced reports whether the path no longer leads to the file.
func (f *openFile) replaced(opened fs.FileInfo) bool {
	again, err := f.again()
	if err != nil || opened == nil {
		return true
	}
	defer func() { _ = again.Close() }() // it is not read
	now, err := again.Stat()
	return err != nil || !os.SameFile(opened, now)
}
