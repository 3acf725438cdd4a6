// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Options say how an executor is started.
type Options struct {
	// Binary is the tacho executable; empty for the running one.
	Binary string
	// RuntimeDir holds one folder per executor, with its socket; empty for the first of FindRuntimeDir.
	RuntimeDir string
	// ID names the task and its folder.
	ID string
	// Owner says whose task it is; zero for that of tacho run.
	Owner wire.Owner
	// ExtraFiles become the executor's descriptors 3, 4 and so on, for the task's standard streams and the leash.
	ExtraFiles []*os.File
	// KeepIgnored says that the task ignores the signals that this process was started with ignored, as below
	// nohup(1); otherwise it starts with every signal's default. Of SIGHUP, SIGINT and SIGQUIT: no others are kept.
	KeepIgnored bool
	// InheritDir says that the task is to have the working directory of this process, even one that was removed or that
	// the task's user may not enter.
	InheritDir bool
	// Samples says that the executor is to sample its task, so that it can prepare while it is being connected to.
	// Without it, it does so when the task is launched.
	Samples bool
	// Meanwhile is called while the executor starts up; nil for nothing.
	Meanwhile func()
	// Waits is where its end is waited for, and outlives the client; nil for a goroutine of the client's own.
	Waits *process.EpollSet
	// Logger gets what an executor wrote to its standard error, such as a panic; nil for nothing.
	Logger hclog.Logger
}

// Client is one caller's connection to one executor. Its methods may be called concurrently.
type Client struct {
	rpc     proto.ExecutorClient
	conn    *connection
	child   *child // nil if the executor was reattached to
	hello   *proto.HelloResponse
	process *watchedProcess   // the executor
	waits   *process.EpollSet // nil for a goroutine of the client's own
	owner   *os.File          // holds the lock; nil for a visitor

	notify        sync.Once
	notifications *notifications // nil before Changed, and for an executor that has none

	mu      sync.Mutex // guards following
	address wire.Address
}

// Start starts an executor and shakes hands with it. Nothing is left behind if it returns an error.
func Start(ctx context.Context, o Options) (*Client, error) {
	if err := kernel.CheckProc(kernel.HostFS()); err != nil {
		return nil, err
	}
	dir, err := FindRuntimeDir(o.RuntimeDir, len(o.ID))
	if err != nil {
		return nil, err
	}
	spare, err := os.Open("/") // to have one for RemoveFolder if this process is short of descriptors
	if err != nil {
		return nil, fmt.Errorf("start executor: %w", err)
	}
	folder := filepath.Join(dir, o.ID)
	owner, err := makeFolder(ctx, dir, o.ID)
	if err != nil {
		return nil, errors.Join(err, spare.Close())
	}
	c, err := start(ctx, o, folder, owner)
	_ = spare.Close()
	if err != nil {
		return nil, errors.Join(err, RemoveFolder(folder))
	}
	return c, nil
}

func start(ctx context.Context, o Options, folder string, owner *os.File) (*Client, error) {
	log := cmp.Or(o.Logger, hclog.NewNullLogger())
	child, socket, err := startChild(ctx, o, folder, log)
	if err != nil {
		return nil, errors.Join(startError(err), owner.Close())
	}
	address := wire.Address{ID: o.ID, Owner: o.Owner, Folder: folder, Socket: socket}
	c := &Client{child: child, owner: owner, waits: o.Waits, address: address}
	failpoint.At("client.start.listening")
	if err := c.connect(ctx); err != nil {
		return nil, errors.Join(startError(child.startError(ctx, err)), owner.Close())
	}
	return c, nil
}

// startError says why an executor could not be started: it is in the groups of this process.
func startError(err error) error {
	if own, findErr := kernel.FindCgroup(kernel.HostFS(), os.Getpid()); findErr == nil {
		err = cgroup.NoRoom(err, own.V1["pids"], own.V2)
	}
	return fmt.Errorf("start executor: %w", err)
}

// processOf is how the executor's process is made: in a session of its own, so that a terminal's signals pass it by,
// and with a small Go runtime, because its memory is paid for by every task.
func processOf(o Options, folder string) *syscall.ProcAttr {
	p := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}, Env: []string{
		wire.Cookie,
		wire.SocketDir + "=" + folder,
		"GOGC=400", "GOMEMLIMIT=64MiB", // the executor lowers GOGC once its task stays
		"PATH=" + os.Getenv("PATH"),
		"XDG_RUNTIME_DIR=" + os.Getenv("XDG_RUNTIME_DIR"), // the user's bus, for a systemd scope
		"DBUS_SESSION_BUS_ADDRESS=" + os.Getenv("DBUS_SESSION_BUS_ADDRESS"),
	}}
	if !o.InheritDir {
		p.Dir = "/"
	}
	p.Env = append(p.Env, o.Owner.Environ()...)
	if o.KeepIgnored {
		p.Env = append(p.Env, wire.KeepIgnored+"=1")
	}
	if o.Samples { // it prepares beside answering us, until it lowers GOMAXPROCS
		p.Env = append(p.Env, wire.Samples+"=1", "GOMAXPROCS=2")
	} else {
		p.Env = append(p.Env, "GOMAXPROCS=1")
	}
	return p
}

// namedTacho returns a link to the executable: process lists and records show the last word of the path that a process
// was started by, exe without it. If there can be no link in the folder, it is the executable.
func namedTacho(binary, folder string) string {
	link := filepath.Join(folder, "tacho")
	if os.Symlink(binary, link) != nil {
		return binary
	}
	if _, err := os.Stat(link); err != nil { // as on a mount with nosymfollow
		return binary
	}
	return link
}

// Reattach connects to an executor that was started earlier, perhaps by another process and an older or newer build.
// The error wraps ErrOtherBoot if the machine was started anew since, ErrLost if the executor is gone, ErrOwned if
// another process holds it. A live executor that answers late is not an error: its task is still running, and Hello
// returns nil. Its end is waited for in waits, a set that outlives the client; nil for a goroutine of the client's own.
func Reattach(ctx context.Context, address wire.Address, waits *process.EpollSet) (*Client, error) {
	return reach(ctx, address, true, waits)
}

// Visit connects to an executor without owning it: for looking at a task, or stopping it, beside its owner.
func Visit(ctx context.Context, address wire.Address) (*Client, error) {
	return reach(ctx, address, false, nil)
}

func reach(ctx context.Context, address wire.Address, own bool, waits *process.EpollSet) (*Client, error) {
	if err := Find(address); err != nil && !errors.Is(err, ErrLost) { // what has ended here may have an owner
		return nil, fmt.Errorf("reattach to executor of %s: %w", address.ID, err)
	}
	if address.Socket == "" { // it was written before there was one
		address.Socket = wire.FindSocket(address.Folder)
	}
	c := &Client{address: address, waits: waits}
	if own {
		owner, err := lock(ctx, address.Folder)
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("reattach to executor of %s: %w", address.ID, ErrLost)
		}
		if err != nil {
			return nil, err
		}
		c.owner = owner
	}
	if err := c.connect(ctx); err != nil {
		return nil, errors.Join(err, c.disown())
	}
	return c, nil
}

// disown gives the lock up, where this client has it.
func (c *Client) disown() error {
	if c.owner == nil {
		return nil
	}
	return c.owner.Close()
}

// connect dials the socket and shakes hands with the executor. A reattached one must be the process that the address
// names.
func (c *Client) connect(ctx context.Context) error {
	if c.child == nil {
		watched, err := watch(c.address.Executor, nil, c.waits)
		if err != nil {
			return fmt.Errorf("reattach to executor of %s: %w", c.address.ID, err)
		}
		c.process = watched
	}
	c.open()
	if err := c.shakeHands(ctx); err != nil && (ctx.Err() != nil || !c.isSilent(err)) {
		return errors.Join(err, c.conn.close(), c.process.close())
	}
	return nil
}

// open makes the client ready for calls.
func (c *Client) open() {
	c.conn = &connection{dial: c.dial, explain: c.explain}
	c.rpc = proto.NewExecutorClient(c.conn)
}

// dial makes the connection; the first call of it connects.
func (c *Client) dial() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix:"+c.address.Socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithReadBufferSize(8<<10), grpc.WithWriteBufferSize(8<<10),
		// A slow reader of samples should get the newest, and not those that wait here.
		grpc.WithStaticStreamWindowSize(wire.Window), grpc.WithStaticConnWindowSize(wire.Window),
		// A silent executor is reached again soon after it resumes; with the default it can take two minutes.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{
			BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second,
		}, MinConnectTimeout: handshakeLimit}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connect to executor: %w", err)
	}
	return conn, nil
}

// isSilent tells an executor that was stopped, or that has no processor time, from one that refuses. Its process is
// the right one: connect has made sure of that.
func (c *Client) isSilent(err error) bool {
	code := status.Code(err)
	return c.owner != nil && c.child == nil && !errors.Is(err, ErrLost) &&
		(code == codes.DeadlineExceeded || code == codes.Unavailable)
}

// maxMessage bounds one message: a final record with all its rows stays far below it.
const maxMessage = 64 << 20

const (
	// handshakeLimit bounds the wait for an answer that must come: an executor that is not asked to launch ends after
	// that time.
	handshakeLimit = 30 * time.Second
	// silenceLimit is when an adopted executor is assumed to be silent: the start of a host waits for it.
	silenceLimit = 3 * time.Second
)

func (c *Client) shakeHands(ctx context.Context) error {
	limit := handshakeLimit
	if c.owner != nil && c.child == nil {
		limit = silenceLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	hello, err := c.sayHello(ctx)
	if err != nil {
		return fmt.Errorf("shake hands with executor: %w", err)
	}
	c.hello = hello
	executor := wire.ToProcessID(hello.GetExecutor())
	if c.process != nil {
		if executor != c.address.Executor {
			return fmt.Errorf("shake hands with executor: %s is served by process %d: %w",
				c.address.Socket, executor.PID, ErrLost)
		}
		return nil
	}
	if c.process, err = watch(executor, c.child, c.waits); err != nil {
		return err
	}
	c.address.Executor = executor
	c.address.Home, err = kernel.OwnHome(kernel.HostFS()) // where the process was found
	if c.address.AllocID != "" {
		c.address.Machine = kernel.MachineID()
	}
	return err
}
