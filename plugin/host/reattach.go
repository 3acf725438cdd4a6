// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	// reattachTimeout bounds the first call to a plugin that is there already.
	reattachTimeout = 5 * time.Second
	// shutdownGrace is how long a plugin may take to end after it was asked to; go-plugin's own is the same.
	shutdownGrace = 2 * time.Second
	// maxMessage bounds what one message of a plugin may cost its host.
	maxMessage = 64 << 20
)

// Reattach connects to a plugin that an earlier run of this host started. The error wraps ErrLost where that
// process is gone, even if its PID or its socket is in use again.
//
// go-plugin's own reattachment is not used: it finds, polls and kills a process by its bare number.
func Reattach(ctx context.Context, address Address) (*Process, error) {
	if !alive(address) {
		return nil, fmt.Errorf("reattach to plugin process %d: %w", address.Process.PID, ErrLost)
	}
	conn, err := grpc.NewClient("unix:"+address.Socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// An idle connection would be closed, and taken for the process's end.
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("reattach to plugin: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reattachTimeout)
	defer cancel()
	if _, err := NewRemote(conn).Info(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("reattach to plugin process %d: %w", address.Process.PID, err), conn.Close())
	}
	return newProcess(nil, conn, address, func() bool { return alive(address) }), nil
}

// identify returns how a plugin process is known from now on. Where the system has no /proc the address says
// nothing of the process, and so cannot be reattached to.
func identify(socket string, pid int) (Address, error) {
	address := Address{Socket: socket}
	if runtime.GOOS != "linux" {
		return address, nil
	}
	id, err := kernel.Identify(kernel.HostFS(), pid)
	if err != nil {
		return address, fmt.Errorf("identify plugin process %d: %w", pid, err)
	}
	boot, err := kernel.BootID(kernel.HostFS())
	if err != nil {
		return address, fmt.Errorf("identify plugin process %d: %w", pid, err)
	}
	address.Process, address.BootID = id.ProcessID, boot
	return address, nil
}

// alive reports whether the process of an address runs, and is that process.
func alive(address Address) bool {
	boot, err := kernel.BootID(kernel.HostFS())
	return err == nil && boot == address.BootID && kernel.Alive(kernel.HostFS(), address.Process)
}

// end asks a reattached plugin to shut down and kills it when it does not.
func (p *Process) end(ctx context.Context) error {
	asked, cancel := context.WithTimeout(ctx, shutdownGrace)
	defer cancel()
	// go-plugin's own service. An answer is not waited for: the plugin may end before it has sent one.
	const method = "/plugin.GRPCController/Shutdown"
	_ = p.conn.Invoke(asked, method, &emptypb.Empty{}, &emptypb.Empty{}) // what counts is the end
	select {
	case <-p.gone:
		return nil
	case <-asked.Done():
	}
	if err := kill(p.address); err != nil {
		return fmt.Errorf("kill plugin process %d: %w", p.address.Process.PID, err)
	}
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("plugin process %d does not exit: %w", p.address.Process.PID, context.Cause(ctx))
	}
}
