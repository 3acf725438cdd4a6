// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

// markVariable tells the processes of a place from all others.
const markVariable = "E2E_PLACE"

// User is who runs tacho.
type User struct {
	Name string
	UID  int
}

// Self is the user who runs the tests.
func Self() User {
	name := "user"
	if os.Geteuid() == 0 {
		name = "root"
	}
	return User{Name: name, UID: os.Geteuid()}
}

// Unprivileged is a user who may do nothing in particular: the tests' own, or nobody where that is root.
func Unprivileged() User {
	if os.Geteuid() != 0 {
		return Self()
	}
	return User{Name: "nobody", UID: 65534}
}

// Place is where one run of tacho has its files, with an environment of its own.
type Place struct {
	// Dir is the working directory.
	Dir string
	// Out is the folder for the records, which does not exist yet.
	Out  string
	User User
	// Parallel means that others run the same binaries meanwhile: only what has the place's mark is its own.
	Parallel bool
	tmp      string
}

// NewPlace makes the folders of a run; they are removed with the test, and whatever still runs there is then
// reported and killed.
func NewPlace(t testing.TB, user User) *Place {
	t.Helper()
	// Short, and reachable for every user: t.TempDir is neither.
	top := testkit.Value(os.MkdirTemp(os.Getenv(dirVariable), "e2e"))(t)
	p := &Place{Dir: filepath.Join(top, "d"), Out: filepath.Join(top, "d", "out"), User: user, tmp: filepath.Join(top, "t")}
	t.Cleanup(func() {
		p.killStrays(t)
		testkit.NoError(t, os.RemoveAll(top))
	})
	testkit.Must(t, os.Chmod(top, 0o755))
	for _, dir := range []string{p.Dir, p.tmp} {
		testkit.Must(t, os.Mkdir(dir, 0o700))
		testkit.Must(t, os.Chown(dir, user.UID, -1))
	}
	return p
}

// Path returns the path of a file in the working directory.
func (p *Place) Path(name string) string { return filepath.Join(p.Dir, name) }

// Env is the whole environment of what runs in the place.
func (p *Place) Env() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + p.Dir, "TMPDIR=" + p.tmp, "XDG_RUNTIME_DIR=" + p.tmp,
		"LANG=C.UTF-8", "TERM=xterm-256color", markVariable + "=" + p.Dir,
	}
}

// Command returns a command that runs in the place as its user.
func (p *Place) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = p.Dir, p.Env()
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if p.User.UID != os.Geteuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(p.User.UID), Gid: uint32(p.User.UID)}
	}
	return cmd
}

// Run returns `tacho run`, with its records in the place, for flags, "--" and a command.
func (p *Place) Run(ctx context.Context, args ...string) *exec.Cmd {
	return p.Command(ctx, Tacho(), append([]string{"run", "--output-dir", p.Out}, args...)...)
}

// Output is what a command wrote and how it ended.
type Output struct {
	Stdout, Stderr string
	// Code is the exit code, 128+N where signal N ended it.
	Code int
}

// Capture runs a command to its end. An end by the command's own doing is no error.
func Capture(t testing.TB, cmd *exec.Cmd) Output {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// Whoever is left behind with our pipes must not hold up the test.
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return Output{Stdout: stdout.String(), Stderr: stderr.String(), Code: Code(cmd.ProcessState)}
}

// Code returns the exit code as a shell counts it.
func Code(state *os.ProcessState) int {
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// Leftovers lists what a run has left outside of its records: live processes, sockets and temporary files.
func (p *Place) Leftovers() []string {
	var left []string
	for _, stray := range p.Strays() {
		left = append(left, "process "+stray.String())
	}
	err := filepath.WalkDir(p.tmp, func(path string, entry os.DirEntry, err error) error {
		// The folder in which a user's executors are to be found stays for the next ones.
		if err == nil && path != p.tmp && path != filepath.Join(p.tmp, "tacho") {
			left = append(left, "file "+strings.TrimPrefix(path, p.tmp+"/")+" in the temporary folder")
		}
		return nil
	})
	if err != nil {
		left = append(left, err.Error())
	}
	return left
}
