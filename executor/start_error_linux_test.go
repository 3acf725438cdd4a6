// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestStartReasons has the kernel refuse commands, and wants to be told which file it was about. DIR stands for the
// directory of the test.
func TestStartReasons(t *testing.T) {
	tests := []struct {
		name string
		// file is the text of the executable x, and next that of y; without text they do not exist.
		file, next string
		change     func(f *fixture, r *proto.LaunchRequest)
		want       string
	}{
		{name: "interpreter", file: "#!/nope\n", want: "DIR/x: its interpreter /nope does not exist"},
		{name: "spaces and arguments", file: "#! \t/nope -a -b", want: "DIR/x: its interpreter /nope does not exist"},
		{
			name: "interpreter of the interpreter", file: "#!DIR/y\n", next: "#!/nope\n",
			want: "DIR/x: its interpreter DIR/y: its interpreter /nope does not exist",
		},
		{name: "directory", file: "#!/etc\n", want: "DIR/x: its interpreter /etc is a directory"},
		{
			name: "below a file", file: "#!/etc/passwd/sh\n",
			want: "DIR/x: its interpreter /etc/passwd/sh: /etc/passwd is not a directory",
		},
		{name: "without a mode", file: "#!/etc/passwd\n", want: "DIR/x: its interpreter /etc/passwd is not executable"},
		{
			name: "lines of Windows", file: "#!/bin/sh\r\ntrue\r\n",
			want: `DIR/x: its interpreter "/bin/sh\r" does not exist`,
		},
		{name: "text", file: "true\n", want: "DIR/x is neither a program for this machine nor a script that begins with #!"},
		{name: "open for writing", file: "#!/bin/sh\n", want: "DIR/x is open for writing: text file busy", change: openForWriting},
		{name: "nothing there", want: "DIR/x does not exist"},
		{
			name: "no directory above it", want: "DIR/no/x does not exist",
			change: func(f *fixture, r *proto.LaunchRequest) { r.Command = filepath.Join(f.dir, "no", "x") },
		},
		{
			name: "no directory to work in", file: "#!/bin/sh\n",
			want:   "DIR/x: the working directory DIR/x is not a directory",
			change: func(_ *fixture, r *proto.LaunchRequest) { r.Dir = r.GetCommand() },
		},
		{
			name: "arguments", want: "the arguments and the environment of /bin/sh are too long",
			change: func(_ *fixture, r *proto.LaunchRequest) {
				r.Command, r.Args = "/bin/sh", []string{strings.Repeat("x", 3<<20)}
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := start(t)
			for name, text := range map[string]string{"x": test.file, "y": test.next} {
				if text != "" {
					f.file(name, strings.ReplaceAll(text, "DIR", f.dir), 0o755)
				}
			}
			request := f.request("echo never")
			request.Command, request.Args = filepath.Join(f.dir, "x"), nil
			if test.change != nil {
				test.change(f, request)
			}
			checkReason(t, f, request, test.want)
		})
	}
}

func openForWriting(f *fixture, _ *proto.LaunchRequest) {
	file := testkit.Value(os.OpenFile(filepath.Join(f.dir, "x"), os.O_WRONLY, 0))(f.t)
	f.t.Cleanup(func() { _ = file.Close() })
}

// TestStartReasonsOfUsers has a user who may not pass.
func TestStartReasonsOfUsers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("starting a task as another user takes root")
	}
	for _, test := range []struct {
		name      string
		dir, file os.FileMode
		want      string
	}{
		{"directory", 0o700, 0o755, "DIR/private/x: DIR/private may not be entered by user 65534:65534"},
		{"file", 0o755, 0o700, "DIR/private/x may not be executed by user 65534:65534"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := start(t)
			for dir := f.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
				must(t, os.Chmod(dir, 0o755))
			}
			must(t, os.Mkdir(filepath.Join(f.dir, "private"), test.dir))
			request := f.request("echo never")
			request.Command, request.Args = f.file("private/x", "#!/bin/sh\n", test.file), nil
			request.User, request.Dir = "65534:65534", "/"
			checkReason(t, f, request, test.want)
		})
	}
}

func checkReason(t *testing.T, f *fixture, request *proto.LaunchRequest, want string) {
	t.Helper()
	_, err := f.Launch(t.Context(), request)
	if code := status.Code(err); code != codes.PermissionDenied && code != codes.NotFound {
		t.Errorf("%v, want a refusal", err)
	}
	want = strings.ReplaceAll(want, "DIR", f.dir)
	if got := status.Convert(err).Message(); !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
