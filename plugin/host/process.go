// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/tachograph/tacho/plugin"
	"github.com/tachograph/tacho/procstats"
)

// ErrLost says that a plugin process is gone, or that its number belongs to another process now.
var ErrLost = errors.New("the plugin process is gone")

// Options say how a plugin executable is started.
type Options struct {
	// Path is the executable.
	Path string
	Args []string
	// SocketDir is the directory in which the plugin's socket is made; it exists. Empty for the system's own.
	SocketDir string
	// Logger gets the plugin's log; nil for nothing.
	Logger hclog.Logger
}

// Name is what the operator calls a plugin: its file's name without .exe.
func (o Options) Name() string { return strings.TrimSuffix(filepath.Base(o.Path), ".exe") }

// Address is how a running plugin is reached again by a later run of its host.
type Address struct {
	// Socket is the path of its unix socket.
	Socket string `json:"socket"`
	// Process and BootID tell it from later processes with the same number.
	Process procstats.ProcessID `json:"process"`
	BootID  string              `json:"boot_id"`
}

// removeSocket removes the socket of a process that has ended.
func (a Address) removeSocket() error {
	info, err := os.Lstat(a.Socket)
	if err == nil && info.Mode().Type() == fs.ModeSocket {
		err = os.Remove(a.Socket)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Process is a running plugin and a connection to it.
type Process struct {
	*Remote

	client  *goplugin.Client // nil where the process was reattached to
	conn    *grpc.ClientConn
	address Address
	gone    chan struct{} // closed when the process has ended

	cancel    context.CancelFunc
	watching  sync.WaitGroup
	closeOnce sync.Once
	closeErr  error
}

// Start starts a plugin executable and connects to it; the plugin outlives ctx. Nothing runs on where it returns an
// error.
func Start(ctx context.Context, o Options) (*Process, error) {
	logger := o.Logger
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	// go-plugin's start takes no context; the end of its process ends it.
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(life, o.Path, o.Args...)
	cmd.SysProcAttr = ownSession()
	config := &goplugin.ClientConfig{
		HandshakeConfig:  plugin.Handshake(),
		Plugins:          goplugin.PluginSet{},
		Cmd:              cmd,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:           logger,
	}
	if o.SocketDir != "" { // go-plugin's own setting applies to runners only
		cmd.Env = append(cmd.Env, goplugin.EnvUnixSocketDir+"="+o.SocketDir)
	}
	client := goplugin.NewClient(config)
	release := context.AfterFunc(ctx, kill)
	p, err := connect(client, cmd)
	if !release() { // the process was killed
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		if p != nil {
			p.unwatch()
		}
		client.Kill()
		return nil, fmt.Errorf("start plugin %s: %w", o.Name(), err)
	}
	return p, nil
}

func connect(client *goplugin.Client, cmd *exec.Cmd) (*Process, error) {
	socket, err := client.Start()
	if err != nil {
		return nil, err
	}
	protocol, err := client.Client()
	if err != nil {
		return nil, err
	}
	// One connection carries both services.
	over, ok := protocol.(*goplugin.GRPCClient)
	if !ok {
		return nil, fmt.Errorf("plugin speaks %s, not gRPC", client.Protocol())
	}
	address, err := identify(socket.String(), cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	return newProcess(client, over.Conn, address, func() bool { return !client.Exited() }), nil
}

// newProcess watches a process that there is a connection to. isAlive says whether it still runs.
func newProcess(client *goplugin.Client, conn *grpc.ClientConn, address Address, isAlive func() bool) *Process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Process{
		Remote: NewRemote(conn), client: client, conn: conn, address: address,
		gone: make(chan struct{}), cancel: cancel,
	}
	p.watching.Go(func() {
		if awaitEnd(ctx, conn, isAlive) {
			close(p.gone)
		}
	})
	return p
}

// awaitEnd returns true when the process has ended, and false when ctx is done. The connection breaks with the
// process, so that nothing has to be polled while it stands.
func awaitEnd(ctx context.Context, conn *grpc.ClientConn, isAlive func() bool) bool {
	const pause = 20 * time.Millisecond
	for ctx.Err() == nil {
		state := conn.GetState()
		if state == connectivity.Ready {
			conn.WaitForStateChange(ctx, state)
			continue
		}
		if !isAlive() {
			return true
		}
		conn.Connect()
		wait, cancel := context.WithTimeout(ctx, pause)
		conn.WaitForStateChange(wait, state)
		cancel()
	}
	return false
}

// Address is how the plugin is reached again.
func (p *Process) Address() Address { return p.address }

// Conn is the connection itself, for who wants to say more on it than a driver does.
func (p *Process) Conn() grpc.ClientConnInterface { return p.conn }

// Gone is closed when the plugin's process has ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Close ends the plugin: it is asked to shut down, and killed when it does not. Tasks are not touched by that. The socket of
// one that was killed is removed.
func (p *Process) Close(ctx context.Context) error {
	p.closeOnce.Do(func() {
		var err error
		if p.client != nil {
			p.unwatch()
			p.client.Kill() // closes the connection too
		} else {
			err = p.end(ctx)
			p.unwatch()
			err = errors.Join(err, p.conn.Close())
		}
		p.closeErr = errors.Join(err, p.address.removeSocket())
	})
	return p.closeErr
}

// Detach gives up the connection; the plugin runs on and can be reached again by its Address.
func (p *Process) Detach() error {
	p.closeOnce.Do(func() {
		p.unwatch()
		p.closeErr = p.conn.Close()
	})
	return p.closeErr
}

func (p *Process) unwatch() {
	p.cancel()
	p.watching.Wait()
}

// Discover lists the executables in a plugin directory, as hosts do, by name. A directory that is not there has none.
func Discover(dir string) ([]Options, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("discover plugins: %w", err)
	}
	var found []Options
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		// Stat and not entry.Info: a link to an executable is one.
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("discover plugins: %w", err)
		}
		if info.Mode().IsRegular() && isExecutable(info) {
			found = append(found, Options{Path: path})
		}
	}
	return found, nil
}
