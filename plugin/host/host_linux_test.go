// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin"
	"github.com/tachograph/tacho/plugin/host"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestMain lets the test binary be a plugin executable.
func TestMain(m *testing.M) {
	if len(os.Args) == 1 && plugin.Requested() {
		plugin.Serve(plugin.Info{Name: "fake", Version: "1.2.3"}, newFake(), hclog.NewNullLogger())
		os.Exit(0)
	}
	before := runtime.NumGoroutine()
	code := m.Run()
	// A fuzzing run has goroutines of its own.
	if code == 0 && flag.Lookup("test.fuzz").Value.String() == "" && !settled(before) {
		fmt.Fprintln(os.Stderr, "goroutines are left after all plugins were closed:")
		if err := pprof.Lookup("goroutine").WriteTo(os.Stderr, 1); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		code = 1
	}
	os.Exit(code)
}

// settled waits until no more goroutines are left than there were.
func settled(before int) bool {
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for runtime.NumGoroutine() > before {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

func options(t *testing.T) host.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Short: the path of a unix socket is limited to 107 bytes.
	dir, err := os.MkdirTemp("/tmp", "tacho")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return host.Options{Path: self, SocketDir: dir}
}

func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: not in 20 s", what)
	}
}

func kill(t *testing.T, address host.Address) {
	t.Helper()
	if err := syscall.Kill(address.Process.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestStartAndClose(t *testing.T) {
	o := options(t)
	p, err := host.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	info, err := p.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(plugin.Info{Name: "fake", Version: "1.2.3", APIVersions: []string{"v0.1.0"}}, info); d != "" {
		t.Errorf("info (-want +got):\n%s", d)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Errorf("close again: %v", err)
	}
	if err := syscall.Kill(p.Address().Process.PID, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the plugin's process is left: %v", err)
	}
	if entries, err := os.ReadDir(o.SocketDir); err != nil || len(entries) > 0 {
		t.Errorf("left in the directory of sockets: %v, %v", entries, err)
	}
}

func TestGone(t *testing.T) {
	p, err := host.Start(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := p.WaitTask(context.Background(), "long")
		waited <- err
	}()
	kill(t, p.Address())
	within(t, "the end of the plugin", p.Gone())
	if err := <-waited; !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a call in flight: %v, want %v", err, driver.ErrUnavailable)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStartFails(t *testing.T) {
	o := options(t)
	for _, o.Path = range []string{"/bin/true", "/no/such/plugin"} {
		if p, err := host.Start(t.Context(), o); err == nil {
			t.Errorf("%s is a plugin", o.Path)
			_ = p.Close(t.Context())
		}
	}
}

func TestDiscover(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"b": 0o755, "a": 0o700, "readme": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": filepath.Join(dir, "a"), "broken": filepath.Join(dir, "nothing")} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := host.Discover(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range found {
		names = append(names, o.Name())
	}
	if d := cmp.Diff([]string{"a", "b", "link"}, names); d != "" {
		t.Errorf("found (-want +got):\n%s", d)
	}
	if found, err := host.Discover(filepath.Join(dir, "nothing")); err != nil || found != nil {
		t.Errorf("in a directory that is not there: %v, %v", found, err)
	}
}

func TestReattach(t *testing.T) {
	first, err := host.Start(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	address := first.Address()
	// go-plugin has a goroutine that waits for the process; the process itself must not notice.
	if err := first.Detach(); err != nil {
		t.Fatal(err)
	}
	second, err := host.Reattach(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := second.Info(t.Context()); err != nil || info.Name != "fake" {
		t.Errorf("%+v, %v", info, err)
	}
	if err := second.Detach(); err != nil {
		t.Fatal(err)
	}

	for name, change := range map[string]func(*host.Address){
		"start time": func(a *host.Address) { a.Process.Start++ },
		"boot":       func(a *host.Address) { a.BootID = "another" },
		"process":    func(a *host.Address) { a.Process.PID = 1 << 22 },
	} {
		wrong := address
		change(&wrong)
		if p, err := host.Reattach(t.Context(), wrong); !errors.Is(err, host.ErrLost) {
			t.Errorf("another %s: %v, %v", name, p, err)
		}
	}

	third, err := host.Reattach(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if err := third.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	within(t, "the end of the plugin", third.Gone())
	if p, err := host.Reattach(t.Context(), address); !errors.Is(err, host.ErrLost) {
		t.Errorf("after its end: %v, %v", p, err)
	}
}

// A reattached plugin that does not end when it is asked is killed, and that one only.
func TestReattachedIsKilled(t *testing.T) {
	first, err := host.Start(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Detach(); err != nil {
		t.Fatal(err)
	}
	p, err := host.Reattach(t.Context(), first.Address())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.Address().Process.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	within(t, "the end of the plugin", p.Gone())
}

// hosted is a host with one good and one lost task.
type hosted struct {
	*host.Host
	moved chan host.Address

	mu        sync.Mutex // guards following
	abandoned []string
}

func newHosted(t *testing.T) *hosted {
	t.Helper()
	h := &hosted{moved: make(chan host.Address, 10)}
	handle := func(id string) *driver.TaskHandle {
		return &driver.TaskHandle{Config: &driver.TaskConfig{ID: id}, DriverState: []byte("state")}
	}
	h.Host = host.New(host.Config{
		Options: options(t), Config: []byte{0x80},
		Handles: func() []*driver.TaskHandle { return []*driver.TaskHandle{handle("lost"), handle("recovered")} },
		Abandoned: func(handle *driver.TaskHandle, err error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.abandoned = append(h.abandoned, handle.Config.ID)
		},
		Moved: func(a host.Address) { h.moved <- a },
	})
	return h
}

func TestHost(t *testing.T) {
	h := newHosted(t)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := h.Driver().Capabilities(ctx); !errors.Is(err, host.ErrNoProcess) || !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("before Open: %v", err)
	}
	if err := h.Open(ctx, nil); err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- h.Run(ctx) }()
	d := h.Driver()
	first := <-h.moved
	for range 3 {
		if _, err := d.InspectTask(ctx, "recovered"); err != nil {
			t.Fatal(err)
		}
		address, ok := h.Address()
		if !ok {
			t.Fatal("no address of a plugin that runs")
		}
		kill(t, address)
		if next := <-h.moved; next.Process == address.Process {
			t.Errorf("moved from %v to %v", address, next)
		}
		// The new process is not visible before it has recovered its tasks.
		if _, err := d.InspectTask(ctx, "recovered"); err != nil {
			t.Fatalf("after a restart: %v", err)
		}
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"lost", "lost", "lost", "lost"}, h.abandoned); d != "" {
		t.Errorf("abandoned (-want +got):\n%s", d)
	}
	address, _ := h.Address()
	if address.Process == first.Process {
		t.Error("the plugin was not started again")
	}
	if err := h.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, ok := h.Address(); ok {
		t.Error("an address after Close")
	}
}

func TestHostReattaches(t *testing.T) {
	h := newHosted(t)
	if err := h.Open(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	address := <-h.moved
	if err := h.Detach(); err != nil {
		t.Fatal(err)
	}
	next := newHosted(t)
	if err := next.Open(t.Context(), &address); err != nil {
		t.Fatal(err)
	}
	if got := <-next.moved; got != address {
		t.Errorf("another plugin: %v, want %v", got, address)
	}
	if err := next.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := newHosted(t)
	if err := last.Open(t.Context(), &address); err != nil {
		t.Fatalf("where the plugin is gone: %v", err)
	}
	if got := <-last.moved; got == address {
		t.Error("reattached to a plugin that is gone")
	}
	if err := last.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestHostEndsAPluginThatHangs has a plugin that runs and does not answer: it is ended before there is another.
func TestHostEndsAPluginThatHangs(t *testing.T) {
	h := newHosted(t)
	if err := h.Open(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	address := <-h.moved
	if err := errors.Join(h.Detach(), syscall.Kill(address.Process.PID, syscall.SIGSTOP)); err != nil {
		t.Fatal(err)
	}
	early, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := newHosted(t).Open(early, &address); err == nil || !kernel.Alive(kernel.HostFS(), address.Process) {
		t.Errorf("opened by a host that ends: %v; it must be left to the next one", err)
	}
	next := newHosted(t)
	if err := next.Open(t.Context(), &address); err != nil {
		t.Fatal(err)
	}
	if got := <-next.moved; got == address || kernel.Alive(kernel.HostFS(), address.Process) {
		t.Errorf("%v runs beside %v", address, got)
	}
	if err := next.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestHostStartsAnewWhatDiesWhenTakenUp(t *testing.T) {
	var address host.Address
	config := host.Config{
		Options: options(t),
		Handles: func() []*driver.TaskHandle {
			return []*driver.TaskHandle{{Config: &driver.TaskConfig{ID: "fatal"}}}
		},
		Moved: func(a host.Address) { address = a },
	}
	first := host.New(config)
	if err := first.Open(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := first.Detach(); err != nil {
		t.Fatal(err)
	}
	before := address
	next := host.New(config)
	if err := next.Open(t.Context(), &before); err != nil {
		t.Fatal(err)
	}
	if address.Process == before.Process {
		t.Error("the plugin was not started anew")
	}
	if _, err := next.Driver().InspectTask(t.Context(), "fatal"); err != nil {
		t.Errorf("after the start: %v", err)
	}
	if err := next.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A plugin that never says where it listens does not delay a caller that cancels its start.
func TestStartIsGivenUp(t *testing.T) {
	o := options(t)
	o.Path, o.Args = "/bin/sleep", []string{"1000"}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := host.Start(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("start of what is no plugin: %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("given up after %s", took)
	}
	p, err := host.Start(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The context is that of the start: the plugin runs on when it ends.
func TestStartedOutlivesItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := host.Start(ctx, options(t))
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Info(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
