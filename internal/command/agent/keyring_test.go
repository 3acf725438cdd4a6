// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/internal/agent"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/testkit"
)

// writeCertificate makes a certificate for the loopback with a serial number, and its key.
func writeCertificate(t *testing.T, dir string, serial int64) {
	t.Helper()
	key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate := testkit.Value(x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key))(t)
	secret := testkit.Value(x509.MarshalPKCS8PrivateKey(key))(t)
	writeSecret(t, filepath.Join(dir, "cert"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})))
	writeSecret(t, filepath.Join(dir, "key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

func writeSecret(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(text), 0o600))
}

// TestSecretsAreReloaded changes the token and the certificate of what is served.
func TestSecretsAreReloaded(t *testing.T) {
	dir := t.TempDir()
	c := config.Default()
	c.DataDir, c.Ports.HTTP, c.ACL.TokenFile = dir, 0, filepath.Join(dir, "token")
	c.TLS = config.TLS{CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key")}
	writeSecret(t, c.ACL.TokenFile, "one")
	writeCertificate(t, dir, 1)
	log := hclog.NewNullLogger()
	e := testkit.Value(openEndpoint(c))(t)
	s := testkit.Value(openServices(agent.New(c, log), c, e, log))(t)
	served := make(chan error, 1)
	go func() { served <- s.servers[1].Serve(s.listeners[1]) }()
	defer func() {
		_ = s.servers[1].Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		s.page.Close()
		closeListener(s.listeners[0])
	}()
	look := func(token string) (status int, serial int64) {
		t.Helper()
		client := http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.listeners[1].Addr().String()+"/v1/regions", nil)
		must(t, err)
		r.Header.Set("X-Nomad-Token", token)
		resp, err := client.Do(r)
		must(t, err)
		defer resp.Body.Close()
		return resp.StatusCode, resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	check := func(when, good, bad string, want int64) {
		t.Helper()
		if status, serial := look(good); status != http.StatusServiceUnavailable || serial != want { // it runs no agent
			t.Errorf("%s: %q gets %d from certificate %d, want %d", when, good, status, serial, want)
		}
		if status, _ := look(bad); status != http.StatusForbidden {
			t.Errorf("%s: %q gets %d", when, bad, status)
		}
	}
	check("at first", "one", "two", 1)
	writeSecret(t, c.ACL.TokenFile, "two")
	writeCertificate(t, dir, 2)
	now := testkit.Value(readSecrets(c))(t)
	s.keys.replace(now)
	check("reloaded", "two", "one", 2)
	writeSecret(t, c.TLS.KeyFile, "broken")
	if _, err := readSecrets(c); err == nil || !strings.Contains(err.Error(), "read certificate") {
		t.Errorf("error %v", err)
	}
}

// must ends a test if its preparation failed.
var must = testkit.Must
