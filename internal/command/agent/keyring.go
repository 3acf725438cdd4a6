// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/regular"
)

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
