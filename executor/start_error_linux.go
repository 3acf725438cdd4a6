// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// findExecutable resolves a command as execvp(3) does in the task's folder, with the PATH of the task's own
// environment. An empty name in it stands for the folder itself.
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
			found = status.Error(codes.PermissionDenied, cmp.Or(caller{dir: dir}.whyNot(path), path+" is not executable"))
		case strings.Contains(name, "/"):
			found = status.Error(codes.NotFound, cmp.Or(caller{dir: dir}.whyNot(path), err.Error()))
		}
	}
	if found != nil {
		return "", found
	}
	return "", status.Errorf(codes.NotFound, "%s: command not found", name)
}

// shortageOr is the status of a machine that is short of something and may have it later; of every other error it is code.
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

// startError says why the fork or exec did not work, with the status that the caller turns into an exit code. The kernel
// gives one error for the command, its interpreters and the directory alike: which of them it is about is looked up.
func startError(c *command, err error) error {
	code := shortageOr(codes.Internal, err)
	switch {
	case c.credential != nil && errors.Is(err, unix.EPERM):
		// execve(2) says EACCES of a file that may not be executed; this is setgroups(2), setgid(2) or setuid(2).
		return status.Errorf(codes.FailedPrecondition, "start %s as another user, %d:%d: %v: requires root (CAP_SETUID and CAP_SETGID)",
			c.path, c.credential.Uid, c.credential.Gid, err)
	case errors.Is(err, fs.ErrNotExist):
		code = codes.NotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.ENOTDIR),
		errors.Is(err, unix.E2BIG), errors.Is(err, unix.ETXTBSY), errors.Is(err, unix.ELOOP):
		code = codes.PermissionDenied
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	user := caller{credential: c.credential, dir: c.dir}
	if code == codes.PermissionDenied || code == codes.NotFound {
		if reason := user.whyNoDirectory(); reason != "" {
			return status.Errorf(code, "%s: the working directory %s%s", c.path, c.dir, reason)
		}
		reason := user.whyNot(c.path)
		switch {
		case errors.Is(err, unix.ETXTBSY):
			reason = c.path + " is open for writing: " + err.Error()
		case errors.Is(err, unix.E2BIG):
			reason = "the arguments and the environment of " + c.path + " are too long: " + err.Error()
		}
		if reason != "" {
			return status.Error(codes.PermissionDenied, reason) // the command itself was found
		}
	}
	what := c.path
	if c.dir != "" && code != codes.ResourceExhausted {
		what += " in the directory " + c.dir
	}
	return status.Errorf(code, "start %s: %v", what, err)
}

// caller is who executes a command, and where.
type caller struct {
	credential *syscall.Credential // nil for the executor's own
	dir        string
}

// interpretersLimit is how many interpreters the kernel follows, a script's script's and so on (fs/exec.c).
const interpretersLimit = 5

// whyNot says why a file cannot be executed; empty if nothing is known that speaks against it.
func (c caller) whyNot(path string) string {
	path = filepath.Clean(path)
	first, subject := path, path
	for range interpretersLimit + 1 {
		reason, interpreter := c.whyNotItself(path)
		if reason != "" {
			return subject + reason
		}
		if interpreter == "" {
			return ""
		}
		subject += ": its interpreter " + interpreter
		if path = interpreter; !filepath.IsAbs(path) {
			path = filepath.Join(c.dir, path)
		}
	}
	return fmt.Sprintf("%s: its interpreters are a loop, or more than %d", first, interpretersLimit)
}

// whyNotItself says why a file cannot be executed, as what follows its name; interpreter is what it needs besides.
func (c caller) whyNotItself(path string) (reason, interpreter string) {
	if reason = c.whyUnreachable(path); reason != "" {
		return reason, ""
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", ""
	case info.IsDir():
		return " is a directory", ""
	case !info.Mode().IsRegular():
		return " is not a regular file", ""
	case info.Mode()&0o111 == 0:
		return " is not executable", ""
	case !c.mayExecute(info):
		return " may not be executed" + c.by(), ""
	case mountedNoexec(path):
		return " is on a file system that is mounted noexec", ""
	}
	return format(path)
}

// whyUnreachable says which part of a path does not exist or may not be passed; empty if none.
func (c caller) whyUnreachable(path string) string {
	chains := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		chains = append(chains, real)
	}
	for _, path := range chains {
		for _, part := range prefixes(path) {
			if reason := c.whyNoPassage(path, part); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// whyNoPassage says why part, the path or a directory above it, does not lead there; empty if it does.
func (c caller) whyNoPassage(path, part string) string {
	info, err := os.Stat(part)
	target := ""
	if err != nil {
		target, _ = os.Readlink(part)
	}
	subject := ""
	if part != path {
		subject = ": " + part
	}
	switch {
	case errors.Is(err, unix.ELOOP):
		return subject + " is a loop of symbolic links"
	case errors.Is(err, fs.ErrNotExist) && target != "":
		return subject + " is a symbolic link to " + target + ", which does not exist"
	case errors.Is(err, fs.ErrNotExist):
		return " does not exist"
	case err != nil:
		return subject + " cannot be read: " + errors.Unwrap(err).Error()
	case part == path:
		return ""
	case !info.IsDir():
		return subject + " is not a directory"
	case !c.mayExecute(info):
		return ": the directory " + part + " may not be entered" + c.by()
	}
	return ""
}

// whyNoDirectory says why the directory of the command cannot be its own; empty if nothing speaks against it.
func (c caller) whyNoDirectory() string {
	if c.dir == "" {
		return ""
	}
	if reason := c.whyUnreachable(c.dir); reason != "" {
		return reason
	}
	info, err := os.Stat(c.dir)
	switch {
	case err != nil:
		return ""
	case !info.IsDir():
		return " is not a directory"
	case !c.mayExecute(info):
		return " may not be entered" + c.by()
	}
	return ""
}

// prefixes are the directories above a path, the outermost first, and the path itself.
func prefixes(path string) []string {
	path = filepath.Clean(path)
	list := []string{path}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		list = append(list, dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	slices.Reverse(list)
	return list
}

// mayExecute reports what the mode of a file says of executing it, or of passing through a directory. Access control
// lists can say otherwise.
func (c caller) mayExecute(info fs.FileInfo) bool {
	uid, groups := uint32(os.Geteuid()), []uint32{uint32(os.Getegid())} //nolint:gosec // not negative on Linux
	if c.credential != nil {
		uid, groups = c.credential.Uid, append([]uint32{c.credential.Gid}, c.credential.Groups...)
	} else if own, err := os.Getgroups(); err == nil {
		for _, gid := range own {
			groups = append(groups, uint32(gid)) //nolint:gosec // not negative on Linux
		}
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if uid == 0 || !known {
		return info.IsDir() || info.Mode()&0o111 != 0
	}
	switch {
	case owner.Uid == uid:
		return info.Mode()&0o100 != 0
	case slices.Contains(groups, owner.Gid):
		return info.Mode()&0o010 != 0
	}
	return info.Mode()&0o001 != 0
}

// by names the user if it is not the executor's own.
func (c caller) by() string {
	if c.credential == nil {
		return ""
	}
	return fmt.Sprintf(" by user %d:%d", c.credential.Uid, c.credential.Gid)
}

func mountedNoexec(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Flags&unix.ST_NOEXEC != 0
}

// format says why the kernel does not take what a file has in it, or which interpreter it asks for.
func format(path string) (reason, interpreter string) {
	file, err := os.Open(path)
	if err != nil {
		return "", "" // it may be executed and not read
	}
	defer file.Close()
	const lookedAt = 256 // BINPRM_BUF_SIZE
	head := make([]byte, lookedAt)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return " cannot be read: " + err.Error(), ""
	}
	head = head[:n]
	line, isScript := bytes.CutPrefix(head, []byte("#!"))
	switch {
	case n == 0:
		return " is empty", ""
	case isScript:
		line, _, _ = bytes.Cut(line, []byte("\n"))
		return scriptInterpreter(string(line))
	case !bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return " is neither a program for this machine nor a script that begins with #!", ""
	}
	return program(file, head)
}

// scriptInterpreter returns the interpreter in what follows the #! of a script.
func scriptInterpreter(line string) (reason, interpreter string) {
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	switch {
	case len(words) == 0:
		return ": its #! line names no interpreter", ""
	case strings.HasSuffix(words[0], "\r"):
		return fmt.Sprintf(": its interpreter %q does not exist: the line ends in a carriage return, as on Windows", words[0]), ""
	}
	return "", words[0]
}

// program says why an ELF file, which begins with head, cannot be executed here, or which dynamic loader it asks for.
func program(file io.ReaderAt, head []byte) (reason, loader string) {
	if machine, ok := machineOf(head); ok && len(ourMachines()) > 0 && !slices.Contains(ourMachines(), machine) {
		return fmt.Sprintf(" is a program for another machine (%s, and this one is %s)",
			strings.TrimPrefix(machine.String(), "EM_"), runtime.GOARCH), ""
	}
	f, err := elf.NewFile(file)
	if err != nil {
		return " is a damaged program: " + err.Error(), ""
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(p.Open(), unix.PathMax))
		if err == nil {
			return "", string(bytes.TrimRight(text, "\x00"))
		}
	}
	return "", ""
}

// machineOf returns e_machine of an ELF header, elf(5); ok is false where there is none.
func machineOf(head []byte) (machine elf.Machine, ok bool) {
	const at = 18
	if len(head) < at+2 {
		return 0, false
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	return elf.Machine(order.Uint16(head[at:])), true
}

// ourMachines are those whose programs this kernel may execute.
func ourMachines() []elf.Machine {
	switch runtime.GOARCH {
	case "386", "amd64":
		return []elf.Machine{elf.EM_X86_64, elf.EM_386}
	case "arm", "arm64":
		return []elf.Machine{elf.EM_AARCH64, elf.EM_ARM}
	case "riscv64":
		return []elf.Machine{elf.EM_RISCV}
	case "ppc64", "ppc64le":
		return []elf.Machine{elf.EM_PPC64, elf.EM_PPC}
	case "s390x":
		return []elf.Machine{elf.EM_S390}
	}
	return nil
}
