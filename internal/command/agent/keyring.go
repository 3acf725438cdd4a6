// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"

	"github.com/tachograph/tacho/internal/agent/config"
)

// secrets are the contents of files that the configuration names.
type secrets struct {
	token string      // empty for none
	tls   *tls.Config // nil for none
}

func readSecrets(c config.Config) (secrets, error) {
	token, err := c.Token()
	if err != nil || c.TLS.CertFile == "" {
		return secrets{token: token}, err
	}
	settings, err := tlsSettings(c.TLS)
	return secrets{token, settings}, err
}

// keyring has the current secrets.
type keyring struct {
	mu      sync.Mutex
	secrets secrets
}

func (k *keyring) token() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.secrets.token
}

// forClient implements tls.Config.GetConfigForClient.
func (k *keyring) forClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.secrets.tls, nil
}

// replace sets new secrets. It cannot turn TLS on or off: the listener stays.
func (k *keyring) replace(now secrets) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.secrets.token = now.token
	if k.secrets.tls != nil && now.tls != nil {
		k.secrets.tls = now.tls
	}
}

func tlsSettings(c config.TLS) (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	settings := &tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}
	if !c.VerifyClient {
		return settings, nil
	}
	text, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read ca_file: %w", err)
	}
	settings.ClientCAs, settings.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !settings.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read ca_file: %s contains no certificate", c.CAFile)
	}
	return settings, nil
}
