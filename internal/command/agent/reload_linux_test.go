// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestFilesByName puts something else in the place of each file that the configuration names: the error names it, and
// nothing waits.
func TestFilesByName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	c := config.Default()
	c.ACL.TokenFile = path("token")
	c.TLS = config.TLS{CertFile: path("cert"), KeyFile: path("key"), CAFile: path("ca"), VerifyClient: true}
	write := func() {
		writeSecret(t, path("token"), "secret")
		writeCertificate(t, dir, 1)
		text := testkit.Value(os.ReadFile(path("cert")))(t)
		writeSecret(t, path("ca"), string(text))
	}
	write()
	good, err := readSecrets(c)
	must(t, err)
	keys := &keyring{secrets: good}
	for what, put := range map[string]func(file string) error{
		"FIFO":      func(file string) error { return unix.Mkfifo(file, 0o600) },
		"directory": func(file string) error { return os.Mkdir(file, 0o700) },
		"device":    func(file string) error { return os.Symlink("/dev/zero", file) },
		"socket":    func(file string) error { return unix.Mknod(file, unix.S_IFSOCK|0o600, 0) },
		"large":     func(file string) error { return os.WriteFile(file, make([]byte, 2<<20), 0o600) },
		"empty":     func(file string) error { return os.WriteFile(file, nil, 0o600) },
		"absent":    func(string) error { return nil },
	} {
		for _, name := range []string{"token", "cert", "key", "ca"} {
			must(t, errors.Join(os.RemoveAll(path(name)), put(path(name))))
			if _, err := readSecrets(c); err == nil || !strings.Contains(err.Error(), path(name)) {
				t.Errorf("%s is a %s: %v", name, what, err)
			}
			must(t, os.RemoveAll(path(name)))
			write()
		}
	}
	again, err := readSecrets(c)
	must(t, err)
	if keys.replace(good) {
		t.Error("the same rules close connections")
	}
	if !keys.replace(again) { // another certificate authority
		t.Error("new rules close no connections")
	}
}

// TestWarnings holds what is said of secrets that can be used.
func TestWarnings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeCertificate(t, dir, 1)
	s := secrets{keyFile: filepath.Join(dir, "key")}
	must(t, s.readTLS(config.TLS{CertFile: filepath.Join(dir, "cert"), KeyFile: s.keyFile}))
	if list := s.warnings(s.expires.Add(-soon - time.Hour)); len(list) != 0 {
		t.Error(list)
	}
	must(t, os.Chmod(s.keyFile, 0o644))
	for when, want := range map[time.Duration]string{-time.Hour: "expires on", time.Hour: "has expired"} {
		list := s.warnings(s.expires.Add(when))
		if len(list) != 2 || !strings.Contains(list[0], want) || !strings.Contains(list[1], "chmod 600") {
			t.Errorf("%q", list)
		}
	}
}

// TestHungReload holds that a reload that hangs is told, that it holds up nothing, and that the next one follows it.
func TestHungReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var said bytes.Buffer
		hangups, answers, begun, warned := make(chan os.Signal, 1), make(chan error), 0, 0
		reload := func() error {
			begun++
			return <-answers
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			attendSignals(ctx, hangups, reload, func() { warned++ }, hclog.New(&hclog.LoggerOptions{Output: &said}))
		}()
		hangups <- unix.SIGHUP
		synctest.Wait()
		hangups <- unix.SIGHUP
		<-time.After(25 * time.Hour)
		synctest.Wait()
		if begun != 1 || warned != 2 || !strings.Contains(said.String(), "a file cannot be read") {
			t.Errorf("%d reloads, %d warnings: %s", begun, warned, &said)
		}
		answers <- errors.New("too late")
		synctest.Wait()
		if begun != 2 || !strings.Contains(said.String(), "too late") {
			t.Errorf("%d reloads: %s", begun, &said)
		}
		cancel()
		<-done
		answers <- nil
	})
}
