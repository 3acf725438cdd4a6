// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/procstats"
)

// fileInfo is Nomad's AllocFileInfo.
type fileInfo struct {
	Name        string
	IsDir       bool
	Size        int64
	FileMode    string
	ModTime     time.Time
	ContentType string `json:",omitempty"`
	Tacho       struct {
		// OtherMount says that a task has mounted something there.
		OtherMount bool `json:",omitzero"`
	} `json:",omitzero"`
}

func newFileInfo(info datadir.Info) fileInfo {
	shown := fileInfo{
		Name: procstats.EscapeName(info.Name()), IsDir: info.IsDir(), Size: info.Size(), FileMode: info.Mode().String(),
		ModTime: info.ModTime(),
	}
	shown.Tacho.OtherMount = info.OtherMount
	if !shown.IsDir {
		shown.ContentType = mime.TypeByExtension(path.Ext(shown.Name))
	}
	return shown
}

// path returns the path of a file. Bytes that are not UTF-8 are escaped, as in lists of files, or are as they are.
func (q *request) path() string { return procstats.RawName(q.values.Get("path")) }

func (s *Server) listFiles(q *request, a *allocation.Allocation) (any, error) {
	infos, err := a.Dir.List(q.path())
	shown := make([]fileInfo, 0, len(infos))
	for _, info := range infos {
		shown = append(shown, newFileInfo(info))
	}
	return shown, fileError(err)
}

func (s *Server) statFile(q *request, a *allocation.Allocation) (any, error) {
	info, err := a.Dir.Stat(q.path())
	if err != nil {
		return nil, fileError(err)
	}
	return newFileInfo(info), nil
}

// fileError turns errors of a path into errors of the caller.
func fileError(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &problem{http.StatusForbidden, err.Error()}
	case errors.Is(err, fs.ErrInvalid):
		return badRequest(err.Error())
	}
	return err
}

// readFile sends the content of a file, or a part of it.
func (s *Server) readFile(ctx context.Context, w http.ResponseWriter, q *request, a *allocation.Allocation) error {
	offset := int64(q.number("offset"))
	limit := param(q, "limit", 0, "a number", func(text string) (int64, error) {
		return strconv.ParseInt(text, 10, 64) // below 1 means none
	})
	if q.err != nil {
		return q.err
	}
	f, err := a.Dir.Open(q.path())
	if err != nil {
		return fileError(err)
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
func (s *Server) streamFile(
	ctx context.Context, w http.ResponseWriter, q *request, a *allocation.Allocation,
) error {
	offset, fromEnd := int64(q.number("offset")), q.either("origin", "start", "start", "end") == "end"
	follow := q.flag("follow") || q.values.Get("follow") == ""
	if q.err != nil {
		return q.err
	}
	open := func() (*os.File, error) { return a.Dir.Open(q.path()) }
	f, err := open()
	if err != nil {
		return fileError(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	at, err := seekTo(f, offset, fromEnd)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	file := &openFile{Reader: f, file: f, at: at, path: q.values.Get("path"), again: open}
	s.sendFile(ctx, &frames{out: s.newStreamWriter(w, q)}, file, follow)
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
	n, err := readSome(f, p)
	f.at += int64(n)
	return n, err
}

// readSome reads from what may grow: its end is no error.
func readSome(r io.Reader, p []byte) (int, error) {
	n, err := r.Read(p)
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

// frames sends pieces of a file as they are, or in Nomad's frames: JSON objects one after the other.
type frames struct {
	out   streams.Writer
	plain bool
}

// frame is Nomad's StreamFrame: Offset is the position in the file after Data. An empty one is a sign of life.
type frame struct {
	Offset    int64  `json:",omitempty"`
	Data      []byte `json:",omitempty"`
	File      string `json:",omitempty"`
	FileEvent string `json:",omitempty"`
}

func (f *frames) send(one frame) error {
	if f.plain {
		if len(one.Data) == 0 {
			return nil
		}
		return f.out.Send(one.Data)
	}
	text, err := json.Marshal(one)
	if err != nil {
		return err
	}
	return f.out.Send(text)
}

// followed is a file, or several that rotate, that is sent while it grows.
type followed interface {
	// read returns 0 bytes at the end.
	read(p []byte) (int, error)
	position() (file string, offset int64)
	// check is called at the end. An event is a change of the file, in Nomad's words; after over nothing is added.
	// thorough is set once in a while.
	check(thorough bool) (event string, over bool)
}

// sendFile sends what a file contains and, if it is followed, what is added.
func (s *Server) sendFile(ctx context.Context, out *frames, f followed, follow bool) {
	buffer := make([]byte, 32<<10)
	over, silent := false, time.Now()
	for {
		n, err := f.read(buffer)
		file, at := f.position()
		if n > 0 {
			if out.send(frame{Offset: at, Data: buffer[:n], File: file}) != nil || ctx.Err() != nil {
				return
			}
			silent = time.Now()
			continue
		}
		if err != nil || over || !follow {
			return
		}
		late, one := time.Since(silent) >= s.heartbeat, frame{}
		if one.FileEvent, over = f.check(late); one.FileEvent != "" || late {
			if one.FileEvent != "" {
				one.File = file
			}
			if out.send(one) != nil {
				return
			}
			silent = time.Now()
		}
		if one.FileEvent != "" || over {
			continue // what was written before is read
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.poll):
		}
	}
}

// seekTo goes to an offset from the start or back from the end, at most to the end.
func seekTo(f io.Seeker, offset int64, fromEnd bool) (int64, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	if fromEnd {
		offset = max(0, end-offset)
	}
	return f.Seek(min(offset, end), io.SeekStart)
}

// logDir has the log files of an allocation's tasks.
type logDir interface {
	OpenLog(task, stream string, after int) (*datadir.Log, error)
	LogsLost() error
}

// tail reads a task's log files over their rotation.
type tail struct {
	dir          logDir
	task, stream string
	follow       bool
	offset       int64
	fromEnd      bool
	// ended reports whether the task will write nothing more.
	ended func() bool

	// log is nil before there are files; next are those that follow its own, once they are there.
	log, next *datadir.Log
}

func (s *Server) logs(ctx context.Context, w http.ResponseWriter, q *request, a *allocation.Allocation) (err error) {
	t := &tail{
		dir: a.Dir, stream: q.either("type", "", "stdout", "stderr"), follow: q.flag("follow"),
		fromEnd: q.either("origin", "start", "start", "end") == "end", offset: int64(q.number("offset")),
	}
	plain := q.flag("plain")
	if t.task, err = q.onlyTask(a); err != nil {
		return err
	}
	if task := a.Tasks[t.task]; task != nil && task.NoLogs {
		return notFound("the job disables the logs of task " + t.task)
	}
	if q.err == nil && t.stream == "" {
		q.err = badRequest("type is missing: must be stdout or stderr")
	}
	if q.err != nil {
		return q.err
	}
	if err := t.open(); err != nil && !(errors.Is(err, fs.ErrNotExist) && t.follow) {
		if _, none := os.Lstat(a.Dir.Logs()); errors.Is(none, fs.ErrNotExist) {
			err = notFound("the log directory does not exist: nothing was written yet, or what was in it was removed")
		} else if errors.Is(err, fs.ErrNotExist) {
			err = notFound("the task has written nothing to " + t.stream + " yet")
		}
		return err
	}
	defer t.close()
	t.ended = func() bool { return hasEnded(s.agent.Snapshot(a.ID), a.ID, t.task, plain) }
	out := &frames{out: s.newStreamWriter(w, q), plain: plain}
	w.Header().Set("Content-Type", "application/json")
	if plain {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.Header().Set("Trailer", apijson.StreamError)
	// The response begins now: clients wait for it before they show anything of another stream.
	if out.out.Send(nil) == nil {
		s.sendFile(ctx, out, t, t.follow)
	}
	if err := a.Dir.LogsLost(); err != nil {
		w.Header().Set(apijson.StreamError, err.Error())
	}
	return nil
}

// hasEnded reports whether the log of a task is at its end. Clients of frames end a followed log themselves, unless
// the allocation was removed.
func hasEnded(now *snapshot.Agent, id, task string, plain bool) bool {
	a, err := now.Allocation(id)
	if err != nil {
		return true
	}
	t := a.Tasks[task]
	return plain && (t == nil || t.State.Phase == hook.PhaseDead)
}

// open opens the files as one and goes to the offset.
func (t *tail) open() error {
	log, err := t.dir.OpenLog(t.task, t.stream, datadir.WholeLog)
	if err != nil {
		return err
	}
	if _, err := seekTo(log, t.offset, t.fromEnd); err != nil {
		return errors.Join(err, log.Close())
	}
	t.log = log
	return nil
}

// read goes on in the next files after the end of the last; missing ones may come.
func (t *tail) read(p []byte) (n int, err error) {
	if t.log == nil {
		err = t.open()
	} else if n, err = readSome(t.log, p); n > 0 || err != nil || !t.follow {
		return n, err
	} else if t.next != nil {
		_ = t.log.Close() // it was only read
		t.log, t.next = t.next, nil
	} else {
		t.next, err = t.dir.OpenLog(t.task, t.stream, t.log.Last)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	}
	// Once there are next files the old ones are whole: what was added to them since the last read comes first.
	return t.read(p)
}

func (t *tail) position() (file string, offset int64) {
	if t.log == nil {
		return "", 0
	}
	file, offset = t.log.Position()
	return "alloc/logs/" + filepath.Base(file), offset
}

func (t *tail) check(bool) (event string, over bool) {
	return "", t.ended() || t.dir.LogsLost() != nil
}

func (t *tail) close() {
	for _, log := range []*datadir.Log{t.log, t.next} {
		if log != nil {
			_ = log.Close() // it was only read
		}
	}
}
