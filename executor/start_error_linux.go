// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"bufio"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/cgroup"
)

// findExecutable resolves a command as execvp(3) does in the task's directory, with the PATH of the task's
// environment. An empty name in PATH is the directory itself.
func findExecutable(name string, env []string, dir string) (string, error) {
	if name == "" {
		return "", status.Error(codes.InvalidArgument, "no command")
	}
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for folder := range strings.SplitSeq(searchPath(env), ":") {
			candidates = append(candidates, filepath.Join(folder, name))
		}
	}
	var found error
	for _, path := range candidates {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		info, err := os.Stat(path)
		switch {
		case err == nil && !info.IsDir() && info.Mode()&0o111 != 0:
			return path, nil
		case err == nil, errors.Is(err, fs.ErrPermission) && strings.Contains(name, "/"):
			found = status.Error(codes.PermissionDenied, path+cmp.Or(caller{}.whyNot(path, false), " is not executable"))
		case strings.Contains(name, "/"):
			found = status.Error(codes.NotFound, path+cmp.Or(caller{}.whyNot(path, false), ": "+err.Error()))
		}
	}
	if found != nil {
		return "", found
	}
	return "", status.Errorf(codes.NotFound, "%s: command not found", name)
}

// shortageOr returns ResourceExhausted for an error of a machine that is short of something, and code for any other.
func shortageOr(code codes.Code, err error) codes.Code {
	for _, short := range []error{unix.EAGAIN, unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		if errors.Is(err, short) {
			return codes.ResourceExhausted
		}
	}
	return code
}

// searchPath is the PATH of an environment; without one it is what execvp(3) takes instead.
func searchPath(env []string) string {
	for _, pair := range slices.Backward(env) {
		if value, found := strings.CutPrefix(pair, "PATH="); found {
			return value
		}
	}
	return "/bin:/usr/bin"
}

// startError says why a fork or exec failed, with the status that the caller turns into an exit code.
func startError(c *command, err error) error {
	code, err := shortageOr(codes.Internal, err), cgroup.NoRoom(err, c.group.Folders()...)
	switch {
	case c.credential != nil && errors.Is(err, unix.EPERM):
		// execve(2) says EACCES of a file that may not be executed; this is setgroups(2), setgid(2) or setuid(2).
		return status.Errorf(codes.FailedPrecondition,
			"start %s as another user, %d:%d: %v: requires root (CAP_SETUID and CAP_SETGID)",
			c.path, c.credential.Uid, c.credential.Gid, err)
	case errors.Is(err, fs.ErrNotExist):
		code = codes.NotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.ENOTDIR),
		errors.Is(err, unix.E2BIG), errors.Is(err, unix.ETXTBSY), errors.Is(err, unix.ELOOP):
		code = codes.PermissionDenied
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	if code == codes.PermissionDenied || code == codes.NotFound {
		user := caller{c.credential}
		if reason := user.whyNot(c.dir, true); c.dir != "" && reason != "" {
			return status.Errorf(code, "%s: the working directory %s%s", c.path, c.dir, reason)
		}
		if reason := user.explain(c, err); reason != "" {
			return status.Error(codes.PermissionDenied, reason) // the command itself was found
		}
	}
	what := c.path
	if c.dir != "" && code != codes.ResourceExhausted {
		what += " in the directory " + c.dir
	}
	return status.Errorf(code, "start %s: %v", what, err)
}

// caller is who executes a command; nil credentials are the executor's own.
type caller struct{ credential *syscall.Credential }

// explain says which file a failed exec was about, and why: the kernel has one error for the command and its
// interpreters. It is empty if nothing is known that speaks against any of them.
func (u caller) explain(c *command, err error) string {
	switch {
	case errors.Is(err, unix.E2BIG):
		return "the arguments and the environment of " + c.path + " are too long: " + err.Error()
	case errors.Is(err, unix.ETXTBSY):
		return c.path + " is open for writing: " + err.Error()
	}
	const followed = 5 // interpreters of interpreters, as in fs/exec.c
	subject, path := c.path, c.path
	for range followed {
		if reason := u.whyNot(path, false); reason != "" {
			return subject + reason
		}
		interpreter := interpreterOf(path)
		if interpreter == "" {
			break
		}
		shown := interpreter
		if strings.HasSuffix(shown, "\r") { // a line of Windows
			shown = strconv.Quote(shown)
		}
		subject += ": its interpreter " + shown
		if path = interpreter; !filepath.IsAbs(path) {
			path = filepath.Join(c.dir, path)
		}
	}
	if errors.Is(err, unix.ENOEXEC) {
		return c.path + " is neither a program for this machine nor a script that begins with #!"
	}
	return ""
}

// whyNot says why a file cannot be executed, or a directory entered, as what follows its name; empty if nothing speaks
// against it.
func (u caller) whyNot(path string, directory bool) string {
	paths := []string{path}
	if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
		paths = append(paths, target)
	}
	for _, path := range paths {
		for end := range path {
			if end == 0 || path[end] != '/' {
				continue
			}
			switch reason := u.whyNotItself(path[:end], true); reason {
			case "":
			case notThere:
				return notThere
			default:
				return ": " + path[:end] + reason
			}
		}
	}
	return u.whyNotItself(path, directory)
}

const notThere = " does not exist"

// whyNotItself is whyNot without the directories above.
func (u caller) whyNotItself(path string, directory bool) string {
	info, err := os.Stat(path)
	var mount unix.Statfs_t
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return notThere
	case err != nil:
		return " cannot be read: " + errors.Unwrap(err).Error()
	case directory && !info.IsDir():
		return " is not a directory"
	case directory && !u.mayExecute(path, info):
		return " may not be entered" + u.by()
	case directory:
		return ""
	case info.IsDir():
		return " is a directory"
	case info.Mode()&0o111 == 0:
		return " is not executable"
	case !u.mayExecute(path, info):
		return " may not be executed" + u.by()
	case unix.Statfs(path, &mount) == nil && mount.Flags&unix.ST_NOEXEC != 0:
		return " is on a file system that is mounted noexec"
	}
	return ""
}

// mayExecute reports whether a file may be executed, or a directory entered. Of another user only the mode is known:
// access control lists can say otherwise.
func (u caller) mayExecute(path string, info fs.FileInfo) bool {
	owner, known := info.Sys().(*syscall.Stat_t)
	if u.credential == nil || !known || u.credential.Uid == 0 {
		return unix.Access(path, unix.X_OK) == nil
	}
	bit := fs.FileMode(0o001)
	if slices.Contains(append(slices.Clone(u.credential.Groups), u.credential.Gid), owner.Gid) {
		bit = 0o010
	}
	if owner.Uid == u.credential.Uid {
		bit = 0o100
	}
	return info.Mode()&bit != 0
}

// by names the user if it is not the executor's own.
func (u caller) by() string {
	if u.credential == nil {
		return ""
	}
	return fmt.Sprintf(" by user %d:%d", u.credential.Uid, u.credential.Gid)
}

// interpreterOf returns the interpreter of a script, or the dynamic loader of a program; empty without one.
func interpreterOf(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return "" // it may be executed and not read
	}
	defer file.Close()
	const looked = 256 // BINPRM_BUF_SIZE
	line, _ := bufio.NewReader(io.LimitReader(file, looked)).ReadString('\n')
	if line, isScript := strings.CutPrefix(line, "#!"); isScript {
		line = strings.TrimLeft(line, " \t")
		return line[:strings.IndexAny(line+"\n", " \t\n")]
	}
	program, err := elf.NewFile(file)
	if err != nil || program.Section(".interp") == nil {
		return ""
	}
	text, _ := program.Section(".interp").Data() // without it there is no loader to name
	return strings.TrimRight(string(text), "\x00")
}
