// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestOutputPaths(t *testing.T) {
	t.Parallel()
	for _, stderr := range []bool{false, true} {
		f := start(t)
		f.file("file", "first\n", 0o600)
		fifo := filepath.Join(f.dir, "fifo")
		must(t, unix.Mkfifo(fifo, 0o600))
		// Before the task, which would keep what it writes to itself while nobody reads.
		reader := testkit.Value(os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0))(t)
		defer reader.Close()
		paths := []string{filepath.Join(f.dir, "file"), fifo}
		if stderr {
			paths = []string{os.DevNull, filepath.Join(f.dir, "new")}
		}
		f.run("echo out; echo err >&2", func(r *proto.LaunchRequest) {
			r.Stdio.StdoutPath, r.Stdio.StderrPath = paths[0], paths[1]
		})
		f.wait()
		if stderr {
			if text, err := os.ReadFile(paths[1]); string(text) != "err\n" {
				t.Errorf("the new file has %q, %v", text, err)
			}
			continue
		}
		if text, err := os.ReadFile(paths[0]); string(text) != "first\nout\n" {
			t.Errorf("the file that was there has %q, %v", text, err)
		}
		if text, err := io.ReadAll(reader); string(text) != "err\n" {
			t.Errorf("the FIFO has %q, %v", text, err)
		}
	}
}

// The folder of the streams may belong to the task's user, who can put there what leads to a file of ours.
func TestOutputPathRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		make   func(path, secret string) error
		path   string // below the fixture's folder, or absolute
		reason string
	}{
		{"a link", func(path, secret string) error { return os.Symlink(secret, path) }, "logs/out", "neither a FIFO"},
		{"a link to nothing", func(path, secret string) error { return os.Symlink(secret+".new", path) }, "logs/out", "neither a FIFO"},
		{"a second name", func(path, secret string) error { return os.Link(secret, path) }, "logs/out", "with one link"},
		{"a folder", func(path, _ string) error { return os.Mkdir(path, 0o700) }, "logs/out", "neither a FIFO"},
		{"a socket", func(path, _ string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return l.Close()
		}, "logs/out", "neither a FIFO"},
		{"a device", func(string, string) error { return nil }, "/dev/zero", "neither a FIFO"},
		{"in a folder that is a link", func(path, secret string) error {
			return os.Symlink(filepath.Dir(secret), filepath.Dir(path))
		}, "link/secret", "not a directory"},
	}
	streams := map[string]func(s *proto.Stdio, path string){
		"standard output": func(s *proto.Stdio, path string) { s.StdoutPath = path },
		"standard error":  func(s *proto.Stdio, path string) { s.StderrPath = path },
	}
	for _, tt := range tests {
		for stream, set := range streams {
			t.Run(stream+" to "+tt.name, func(t *testing.T) {
				f := start(t)
				must(t, os.Mkdir(filepath.Join(f.dir, "logs"), 0o700))
				path, secret := tt.path, f.file("secret", "hush\n", 0o600)
				if !filepath.IsAbs(path) {
					path = filepath.Join(f.dir, path)
				}
				must(t, tt.make(path, secret))
				request := f.request("echo never; echo never >&2")
				set(request.GetStdio(), path)
				_, err := f.Launch(t.Context(), request)
				if s := status.Convert(err); s.Code() != codes.InvalidArgument ||
					!strings.Contains(s.Message(), path) || !strings.Contains(s.Message(), tt.reason) {
					t.Errorf("%v, want a refusal of %s: %s", err, path, tt.reason)
				}
				if text, err := os.ReadFile(secret); string(text) != "hush\n" {
					t.Errorf("what the path leads to has %q, %v", text, err)
				}
				if _, err := os.Lstat(secret + ".new"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a file was made through the link: %v", err)
				}
				f.noCgroupLeft()
			})
		}
	}
}
