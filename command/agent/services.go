// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/agent"
	"github.com/tachograph/tacho/agent/api"
	"github.com/tachograph/tacho/agent/config"
	"github.com/tachograph/tacho/agent/metrics"
	"github.com/tachograph/tacho/agent/page"
)

// shutdownTimeout is how long requests that are being answered get at the end.
const shutdownTimeout = 3 * time.Second

// services are what an agent serves: HTTP on its listeners, and numbers to a statsd server.
type services struct {
	log       hclog.Logger
	keys      *keyring
	page      *page.Page
	statsd    *metrics.Statsd
	listeners []net.Listener
	servers   []*http.Server
}

func tcpAddress(c config.Config) string {
	return net.JoinHostPort(c.BindAddr, strconv.Itoa(c.Ports.HTTP))
}

// openServices listens on the unix socket, where everything is served, and on TCP.
func openServices(a *agent.Agent, c config.Config, log hclog.Logger) (*services, error) {
	secrets, err := readSecrets(c)
	if err != nil {
		return nil, err
	}
	kept := &keyring{secrets: secrets}
	collector := metrics.New(a, a)
	s := &services{
		log: log.Named("http"), keys: kept, statsd: metrics.NewStatsd(collector),
		page: page.New(a, page.Options{
			Logger: log.Named("page"), Token: kept.token, Interval: c.Telemetry.CollectionInterval, HistorySpan: c.History.Span,
		}),
	}
	trusted, others := s.page.Handler(true), s.page.Handler(false)
	served := api.New(a, api.Options{
		Logger: s.log, Token: kept.token, Metrics: collector, Hosts: hostNames(c),
		Page: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if api.Trusted(r.Context()) {
				trusted.ServeHTTP(w, r)
				return
			}
			others.ServeHTTP(w, r)
		}),
	})
	local, err := listenSocket(c.Socket())
	if err != nil {
		return nil, err
	}
	s.add(local, served.HTTPServer(true))
	if c.Ports.HTTP == -1 {
		return s, nil
	}
	tcp, err := net.Listen("tcp", tcpAddress(c))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), s.close())
	}
	if secrets.tls != nil {
		// Asked for at each connection: a certificate is renewed while tasks run.
		tcp = tls.NewListener(tcp, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: kept.forClient})
	}
	s.add(tcp, served.HTTPServer(false))
	return s, nil
}

// hostNames are the names by which clients reach the agent where it does not listen on the loopback only.
func hostNames(c config.Config) []string {
	names := []string{c.Name}
	if name, err := os.Hostname(); err == nil { // without one it is not reached by it
		names = append(names, name)
	}
	return names
}

func (s *services) add(l net.Listener, server *http.Server) {
	s.listeners, s.servers = append(s.listeners, l), append(s.servers, server)
}

func (s *services) close() error {
	s.page.Close()
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// run serves until ctx is done.
func (s *services) run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { s.statsd.Run(ctx, func(err error) { s.log.Error("send to statsd", "error", err) }) })
	for i, server := range s.servers {
		work.Go(func() {
			if err := server.Serve(s.listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				s.log.Error("serve", "address", s.listeners[i].Addr(), "error", err)
			}
		})
	}
	<-ctx.Done()
	s.page.Close()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	for _, server := range s.servers {
		if err := server.Shutdown(end); err != nil {
			s.log.Debug("requests were cut short", "error", errors.Join(err, server.Close()))
		}
	}
}

// socketListener removes its socket at the end, wherever it was renamed to.
type socketListener struct {
	*net.UnixListener
	path string
}

// Close implements net.Listener.
func (l *socketListener) Close() error {
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(l.UnixListener.Close(), err)
}

// listenSocket listens on a unix socket of mode 0600. It is made in a folder that only we can enter, so that nobody
// connects before its mode is set; the state's lock has seen to it that no other agent has this data folder.
func listenSocket(path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	made := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(made, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), l.Close())
	}
	if err := os.Rename(made, path); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), l.Close())
	}
	return &socketListener{l, path}, nil
}

// What a service manager is told, sd_notify(3).
const (
	managerReady    = daemon.SdNotifyReady
	managerStopping = daemon.SdNotifyStopping
	// managerReloading stands for the message with the time that Type=notify-reload needs, systemd 253.
	managerReloading = daemon.SdNotifyReloading
)

// tellManager tells the service manager, where there is one.
func tellManager(log hclog.Logger, message string) {
	if message == managerReloading {
		message = fmt.Sprintf("%s\nMONOTONIC_USEC=%d", message, monotonic().Microseconds())
	}
	if _, err := daemon.SdNotify(false, message); err != nil {
		log.Warn("tell the service manager", "error", err)
	}
}

// watchdog tells the service manager that the agent is alive, as often as it wants to know, until ctx is done. An
// agent whose allocations are stuck does not answer, and is started again.
func watchdog(ctx context.Context, a *agent.Agent, log hclog.Logger) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval <= 0 {
		return
	}
	ticker := time.NewTicker(interval / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = a.Allocations() // takes the locks that most requests take: of the list, and of each allocation and task
			tellManager(log, daemon.SdNotifyWatchdog)
		}
	}
}
