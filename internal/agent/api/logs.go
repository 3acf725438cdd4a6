// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocdir"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/streams"
)

// logDir has the log files of an allocation's tasks.
type logDir interface {
	LogFiles(task, stream string) ([]string, error)
	OpenLogAfter(task, stream, path string) (*allocdir.Log, error)
}

// logRequest is the query of GET /v1/client/fs/logs/ID.
type logRequest struct {
	dir                 logDir
	alloc, task, stream string
	follow, plain       bool
	fromEnd             bool
	offset              int64
}

func newLogRequest(r *http.Request, now *snapshot.Agent) (*logRequest, error) {
	a, err := allocationOf(r, now)
	if err != nil {
		return nil, err
	}
	p := paramsOf(r)
	q := &logRequest{
		dir: a.Dir, alloc: a.ID, stream: p.either("type", "", "stdout", "stderr"), follow: p.flag("follow"), plain: p.flag("plain"),
		fromEnd: p.either("origin", "start", "start", "end") == "end", offset: int64(p.number("offset")),
	}
	if q.task, err = onlyTask(r, a); err != nil {
		return nil, err
	}
	if t := a.Tasks[q.task]; t != nil && t.NoLogs {
		return nil, notFound("the job disables the logs of task " + q.task)
	}
	if p.err == nil && q.stream == "" {
		p.err = badRequest("type is missing: must be stdout or stderr")
	}
	return q, p.err
}

// logs is GET /v1/client/fs/logs/ID?task=&type=&follow=&origin=&offset=&plain=.
func (s *Server) logs(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	q, err := newLogRequest(r, s.agent.Snapshot())
	if err != nil {
		return err
	}
	t := &tail{server: s, query: q}
	if err := t.open(); err != nil && !(errors.Is(err, fs.ErrNotExist) && q.follow) {
		if errors.Is(err, fs.ErrNotExist) {
			err = notFound("the task has written nothing to " + q.stream + " yet")
		}
		return err
	}
	defer t.close()
	out := &logWriter{out: s.newStreamWriter(w, r), plain: q.plain}
	if q.plain {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	// The answer begins now, whatever there is to read: clients wait for it before they show anything of another stream.
	if out.out.Send(nil) != nil {
		return nil
	}
	s.copyLog(ctx, t, out)
	return nil
}

// copyLog sends what is there and, if it is followed, what is added until the task has ended.
func (s *Server) copyLog(ctx context.Context, t *tail, out *logWriter) {
	buffer := make([]byte, 32<<10)
	silent := time.Now()
	for {
		ended, gone := t.ended() // before the read: what was written by then is read now
		n, err := t.read(buffer)
		switch {
		case n > 0:
			file, at := t.log.Position()
			if out.write(buffer[:n], "alloc/logs/"+filepath.Base(file), at) != nil {
				return
			}
			silent = time.Now()
			if ctx.Err() != nil {
				return
			}
			continue
		case err != nil || !t.query.follow || ended && t.query.plain || gone:
			return // clients of frames end a followed log themselves
		case time.Since(silent) >= s.heartbeat:
			if out.heartbeat() != nil {
				return
			}
			silent = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.poll):
		}
	}
}

// tail reads a task's log files on and on, over their rotation.
type tail struct {
	server *Server
	query  *logRequest
	log    *allocdir.Log
	files  []string
}

// open opens the files as one and goes to where the query says, or, if some were read before, opens those that
// follow them.
func (t *tail) open() error {
	q, before := t.query, t.newest()
	log, err := q.dir.OpenLogAfter(q.task, q.stream, before)
	if err != nil {
		return err
	}
	if before == "" {
		if err := q.seek(log); err != nil {
			return errors.Join(err, log.Close())
		}
	}
	t.log, t.files = log, log.Files()
	return nil
}

// seek goes to where the query says.
func (q *logRequest) seek(log io.Seeker) error {
	end, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	offset := min(q.offset, end)
	if q.fromEnd {
		offset = max(0, end-q.offset)
	}
	_, err = log.Seek(offset, io.SeekStart)
	return err
}

// read returns what there is, 0 bytes at the end. When the last file has been followed by another it goes on there.
func (t *tail) read(p []byte) (int, error) {
	if t.log == nil {
		if err := t.open(); errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		} else if err != nil {
			return 0, err
		}
	}
	if n, err := t.readOnce(p); n > 0 || err != nil || !t.query.follow {
		return n, err
	}
	files, err := t.query.dir.LogFiles(t.query.task, t.query.stream)
	if err != nil || len(files) == 0 {
		return 0, err
	}
	if files[len(files)-1] == t.newest() {
		return 0, nil
	}
	// The old file is whole now: what was written to it between the last read and the rotation comes first.
	if n, err := t.readOnce(p); n > 0 || err != nil {
		return n, err
	}
	t.close()
	if err := t.open(); errors.Is(err, fs.ErrNotExist) {
		return 0, nil // rotated away meanwhile: others follow
	} else if err != nil {
		return 0, err
	}
	return t.readOnce(p)
}

func (t *tail) readOnce(p []byte) (int, error) {
	n, err := t.log.Read(p)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// ended reports whether the task will write nothing more, and whether its allocation was removed.
func (t *tail) ended() (ended, gone bool) {
	a, err := t.server.agent.Snapshot(t.query.alloc).Allocation(t.query.alloc)
	if err != nil {
		return true, true
	}
	task := a.Tasks[t.query.task]
	return task == nil || task.State.Phase == hook.PhaseDead, false
}

// newest is the path of the newest file that was opened; empty if none was.
func (t *tail) newest() string {
	if len(t.files) == 0 {
		return ""
	}
	return t.files[len(t.files)-1]
}

func (t *tail) close() {
	if t.log != nil {
		_ = t.log.Close() // it was only read
		t.log = nil
	}
}

// logWriter sends pieces of a log as they are, or in Nomad's frames: JSON objects one behind the other.
type logWriter struct {
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

func (l *logWriter) write(p []byte, file string, at int64) error {
	if l.plain {
		return l.out.Send(p)
	}
	text, err := json.Marshal(frame{Offset: at, Data: p, File: file})
	if err != nil {
		return err
	}
	return l.out.Send(text)
}

// tell says what has happened to the file, in Nomad's words.
func (l *logWriter) tell(event, file string) error {
	text, err := json.Marshal(frame{File: file, FileEvent: event})
	if err != nil {
		return err
	}
	return l.out.Send(text)
}

func (l *logWriter) heartbeat() error {
	if l.plain {
		return nil // nothing that is not the log may be in it
	}
	return l.out.Send([]byte("{}"))
}
