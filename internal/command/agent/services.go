// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/internal/agent"
	"github.com/tachograph/tacho/internal/agent/api"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/page"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/regular"
	"github.com/tachograph/tacho/procstats/kernel"
)

// shutdownTimeout is the time for active requests at the end.
const shutdownTimeout = 3 * time.Second

// services are the HTTP servers of an agent.
type services struct {
	log       hclog.Logger
	keys      *keyring
	page      *page.Page
	socket    string
	listeners []net.Listener
	servers   []*http.Server
	// connections are those over TCP.
	connections *streams.Connections
}

// signInCommand prints a link to the page of this agent, and of no other on this machine.
func signInCommand(c config.Config) string {
	if c.DataDir == datadir.Default {
		return "tacho ui"
	}
	return "tacho ui --addr " + cli.CommandLine([]string{c.Socket()})
}

// pageAddress is where a browser on this machine finds the page; empty if it does not.
func pageAddress(c config.Config) string {
	switch address := c.Address(); {
	case address == "":
		return ""
	case c.TLS.CertFile != "":
		return "https://" + address
	default:
		return "http://" + address
	}
}

// endpoint is what the agent needs before it starts anything: tasks must not run under an unreachable agent.
type endpoint struct {
	tcp     net.Listener // nil for none
	secrets secrets
}

// openEndpoint reads the secrets and listens on the agent's address.
func openEndpoint(c config.Config) (endpoint, error) {
	s, err := readSecrets(c)
	if err != nil || c.Ports.HTTP == -1 {
		return endpoint{secrets: s}, err
	}
	tcp, err := net.Listen("tcp", net.JoinHostPort(c.BindAddr, strconv.Itoa(c.Ports.HTTP)))
	return endpoint{tcp, s}, err // an error of Listen says "listen" itself
}

func closeListener(l net.Listener) {
	if l != nil {
		_ = l.Close() // it may be closed already
	}
}

// openServices listens on the unix socket, where everything is served, and serves on TCP.
func openServices(a *agent.Agent, c config.Config, e endpoint, log hclog.Logger) (*services, error) {
	keys := &keyring{secrets: e.secrets}
	room := streams.New(streams.DefaultLimits())
	room.Connections = streams.NewConnections(mostConnections())
	s := &services{
		log: log.Named("http"), keys: keys, connections: room.Connections, socket: c.Socket(),
		page: page.New(a, page.Options{
			Logger: log.Named("page"), Token: keys.token, Streams: room, Interval: c.Telemetry.CollectionInterval,
			HistorySpan: c.History.Span, HistoryInterval: c.History.Interval,
			Address: pageAddress(c), SignIn: signInCommand(c),
		}),
	}
	trusted, others := s.page.Handler(true), s.page.Handler(false)
	served := api.New(a, api.Options{
		Logger: s.log, Token: keys.token, Streams: room, Hosts: hostNames(c),
		Page: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if api.Trusted(r.Context()) {
				trusted.ServeHTTP(w, r)
				return
			}
			others.ServeHTTP(w, r)
		}),
	})
	local, err := listenSocket(s.socket)
	if err != nil {
		return nil, err
	}
	s.add(local, served.HTTPServer(true))
	tcp := e.tcp
	if tcp == nil {
		return s, nil
	}
	tcp = s.connections.Bound(tcp)
	if e.secrets.tls != nil {
		// For each connection: certificates are renewed while the agent runs.
		tcp = tls.NewListener(tcp, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: keys.forClient})
	}
	server := served.HTTPServer(false)
	server.ConnState = s.connections.State
	s.add(tcp, server)
	return s, nil
}

// mostConnections leaves three quarters of the descriptors to the control socket, the state and the tasks.
func mostConnections() int {
	const least, most = 16, 1024
	return min(max(least, kernel.FileLimit()/4), most)
}

// warn logs what is wrong with the secrets although they can be used.
func (s *services) warn() {
	secrets := s.keys.current()
	for _, text := range secrets.warnings(time.Now()) {
		s.log.Warn("tls: " + text)
	}
}

// hostNames returns the names by which clients reach the agent if it does not listen on the loopback only.
func hostNames(c config.Config) []string {
	names := []string{c.Name}
	if name, err := os.Hostname(); err == nil { // optional
		names = append(names, name)
	}
	return names
}

func (s *services) add(l net.Listener, server *http.Server) {
	s.listeners, s.servers = append(s.listeners, l), append(s.servers, server)
}

// run serves until ctx is done.
func (s *services) run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	for i, server := range s.servers {
		work.Go(func() {
			if err := server.Serve(s.listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				s.log.Error("serve", "address", s.listeners[i].Addr(), "error", err)
			}
		})
	}
	<-ctx.Done()
	_ = os.Remove(s.socket) // a listener does not: its socket was renamed
	s.page.Close()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	for _, server := range s.servers {
		if err := server.Shutdown(end); err != nil {
			s.log.Debug("close active requests", "error", errors.Join(err, server.Close()))
		}
	}
}

// listenSocket listens on a unix socket of mode 0600. It creates the socket in a directory of mode 0700, so that no
// other user can connect before the mode is set. The lock of the state excludes another agent with the same data
// directory.
func listenSocket(path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	temporary := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(temporary, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), l.Close())
	}
	if err := os.Rename(temporary, path); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), l.Close())
	}
	return l, nil
}

// notifyManager notifies the service manager, if there is one, sd_notify(3). Type=notify-reload of systemd 253 needs
// the time of a reload.
func notifyManager(log hclog.Logger, message string) {
	if message == daemon.SdNotifyReloading {
		message = fmt.Sprintf("%s\nMONOTONIC_USEC=%d", message, kernel.Now().Mono.Microseconds())
	}
	if _, err := daemon.SdNotify(false, message); err != nil {
		log.Warn("notify service manager", "error", err)
	}
}

// watchdog sends keep-alive messages to the service manager until ctx is done. An agent with a deadlock does not, and
// is restarted.
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
			_ = a.Snapshot() // takes the locks of the list, and of each allocation and its readings
			notifyManager(log, daemon.SdNotifyWatchdog)
		}
	}
}

// secrets are the contents of files that the configuration names.
type secrets struct {
	token string      // empty for none
	tls   *tls.Config // nil for none
	// keyFile and expires are of the certificate.
	keyFile string
	expires time.Time
}

func readSecrets(c config.Config) (secrets, error) {
	token, err := c.Token()
	if err != nil || c.TLS.CertFile == "" {
		return secrets{token: token}, err
	}
	s := secrets{token: token, keyFile: c.TLS.KeyFile}
	return s, s.readTLS(c.TLS)
}

// soon is how long before the end of a certificate the agent begins to warn.
const soon = 14 * 24 * time.Hour

// warnings say what is wrong with the secrets although they can be used.
func (s *secrets) warnings(now time.Time) (list []string) {
	if s.tls == nil {
		return nil
	}
	switch left := s.expires.Sub(now); {
	case left < 0:
		list = append(list, "the certificate has expired on "+s.expires.Format(time.DateOnly)+": clients refuse it")
	case left < soon:
		list = append(list, "the certificate expires on "+s.expires.Format(time.DateOnly))
	}
	if info, err := os.Stat(s.keyFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		list = append(list, fmt.Sprintf("%s has mode %04o, so that others can read the key; chmod 600 %[1]s",
			s.keyFile, info.Mode().Perm()))
	}
	return list
}

// keyring has the current secrets.
type keyring struct {
	mu      sync.Mutex
	secrets secrets
}

func (k *keyring) current() secrets {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.secrets
}

func (k *keyring) token() string { return k.current().token }

// forClient implements tls.Config.GetConfigForClient.
func (k *keyring) forClient(*tls.ClientHelloInfo) (*tls.Config, error) { return k.current().tls, nil }

// replace sets new secrets, and reports whether other clients are let in now. It cannot turn TLS on or off: the
// listener stays.
func (k *keyring) replace(now secrets) (stricter bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	stricter = k.secrets.token != now.token
	if k.secrets.tls == nil || now.tls == nil {
		k.secrets.token = now.token
		return stricter
	}
	stricter = stricter || !k.secrets.tls.ClientCAs.Equal(now.tls.ClientCAs)
	k.secrets = now
	return stricter
}

// readTLS reads certificate, key and the certificates of clients, and checks that a server can use them.
func (s *secrets) readTLS(c config.TLS) error {
	certificate, err := readCertificate(c)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	s.expires = certificate.Leaf.NotAfter
	s.tls = &tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}
	if !c.VerifyClient {
		return nil
	}
	s.tls.ClientAuth = tls.RequireAndVerifyClientCert
	if s.tls.ClientCAs, err = regular.Certificates(c.CAFile); err != nil {
		return fmt.Errorf("read ca_file: %w", err)
	}
	return nil
}

func readCertificate(c config.TLS) (tls.Certificate, error) {
	chain, err := regular.Secret(c.CertFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := regular.Secret(c.KeyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	certificate, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s, %s: %w", c.CertFile, c.KeyFile, err)
	}
	uses := certificate.Leaf.ExtKeyUsage
	if len(uses) > 0 && !slices.Contains(uses, x509.ExtKeyUsageServerAuth) && !slices.Contains(uses, x509.ExtKeyUsageAny) {
		return tls.Certificate{}, fmt.Errorf("%s: its key usage does not allow a server", c.CertFile)
	}
	return certificate, nil
}
