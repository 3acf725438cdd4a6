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
	"github.com/tachograph/tacho/internal/agent/snapshot"
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
	shown := fileInfo{Name: info.Name(), IsDir: info.IsDir(), Size: info.Size(), FileMode: info.Mode().String(), ModTime: info.ModTime()}
	if !shown.IsDir {
		shown.ContentType = mime.TypeByExtension(path.Ext(shown.Name))
	}
	return shown
}

// listFiles is GET /v1/client/fs/ls/ID?path=.
func (s *Server) listFiles(r *http.Request, _ *snapshot.Agent, a *allocation.Allocation) (any, error) {
	infos, err := a.Dir.List(r.URL.Query().Get("path"))
	shown := make([]fileInfo, 0, len(infos))
	for _, info := range infos {
		shown = append(shown, newFileInfo(info))
	}
	return shown, fileError(err)
}

// statFile is GET /v1/client/fs/stat/ID?path=.
func (s *Server) statFile(r *http.Request, _ *snapshot.Agent, a *allocation.Allocation) (any, error) {
	info, err := a.Dir.Stat(r.URL.Query().Get("path"))
	if err != nil {
		return nil, fileError(err)
	}
	return newFileInfo(info), nil
}

// fileError is an error that is the caller's where it is.
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
func (s *Server) openFile(r *http.Request) (*os.File, error) {
	a, err := allocationOf(r, s.agent.Snapshot())
	if err != nil {
		return nil, err
	}
	f, err := a.Dir.Open(r.URL.Query().Get("path"))
	return f, fileError(err)
}

// readFile is GET /v1/client/fs/cat/ID?path= and, with offset and limit, …/readat/ID.
func (s *Server) readFile(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	offset := int64(p.number("offset"))
	limit := param(p, "limit", 0, "a number", func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }) // below 1 for none
	if p.err != nil {
		return p.err
	}
	f, err := s.openFile(r)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	left := max(0, info.Size()-offset)
	if limit > 0 {
		left = min(left, limit)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	out := s.newStreamWriter(w, r)
	buffer := make([]byte, 32<<10)
	for left > 0 && ctx.Err() == nil {
		n, err := f.Read(buffer[:min(int64(len(buffer)), left)])
		if n > 0 && out.Send(buffer[:n]) != nil || err != nil {
			return nil // the head of the answer is sent
		}
		left -= int64(n)
	}
	return nil
}

// streamFile is GET /v1/client/fs/stream/ID?path=&origin=&offset=&follow=: a file in frames, and what is added to it.
func (s *Server) streamFile(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	offset, origin := int64(p.number("offset")), p.either("origin", "start", "start", "end")
	follow := p.flag("follow") || p.values.Get("follow") == ""
	if p.err != nil {
		return p.err
	}
	f, err := s.openFile(r)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if origin == "end" {
		end, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return err
		}
		offset = max(0, end-offset)
	}
	at, err := f.Seek(offset, io.SeekStart)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	out, path := &logWriter{out: s.newStreamWriter(w, r)}, r.URL.Query().Get("path")
	buffer := make([]byte, 32<<10)
	for silent := time.Now(); ; {
		n, err := f.Read(buffer)
		at += int64(n)
		switch {
		case n > 0:
			if out.write(buffer[:n], path, at) != nil {
				return nil
			}
			silent = time.Now()
			continue
		case err != nil && !errors.Is(err, io.EOF) || !follow:
			return nil
		case isCut(f, at):
			if at, err = f.Seek(0, io.SeekStart); err != nil || out.tell("file truncated", path) != nil {
				return nil
			}
			continue
		case time.Since(silent) >= s.heartbeat && s.isAnother(r, f):
			_ = out.tell("file deleted", path) // fails if the client is gone
			return nil
		case time.Since(silent) >= s.heartbeat:
			if out.heartbeat() != nil {
				return nil
			}
			silent = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.poll):
		}
	}
}

// isAnother reports whether a path does not name the file any more that was opened by it.
func (s *Server) isAnother(r *http.Request, f *os.File) bool {
	opened, err := f.Stat()
	if err != nil {
		return true
	}
	again, err := s.openFile(r)
	if err != nil {
		return true
	}
	defer func() { _ = again.Close() }() // it is not read
	now, err := again.Stat()
	return err != nil || !os.SameFile(opened, now)
}

// isCut reports whether a file ends before a position.
func isCut(f *os.File, at int64) bool {
	info, err := f.Stat()
	return err == nil && info.Size() < at
}
