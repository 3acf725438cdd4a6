// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// named are the files that an agent reads by name, with what belongs in them.
type named struct {
	*host
	contents map[string]string
	address  string
	client   *http.Client
}

func newNamed(t *testing.T) *named {
	t.Helper()
	free := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	n := &named{host: newHost(t, ""), address: free.Addr().String()}
	testkit.Must(t, free.Close())
	key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der := testkit.Value(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	secret := testkit.Value(x509.MarshalPKCS8PrivateKey(key))(t)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	_, port, _ := net.SplitHostPort(n.address)
	n.contents = map[string]string{
		"token": "secret\n", "cert": string(certificate), "ca": string(certificate), "key": string(private), "job": sleeper(),
		"config.hcl": fmt.Sprintf("data_dir = %q\nports {\n http = %s\n}\nacl {\n token_file = %q\n}\ntls {\n cert_file = %q\n"+
			" key_file = %q\n ca_file = %q\n verify_https_client = true\n}\n",
			n.data(), port, n.in("token"), n.in("cert"), n.in("key"), n.in("ca")),
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	own := testkit.Value(tls.X509KeyPair(certificate, private))(t)
	n.client = &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}},
	}}
	for name := range n.contents {
		n.restore(name)
	}
	return n
}

func (n *named) in(name string) string { return filepath.Join(n.dir, name) }

func (n *named) restore(name string) {
	n.t.Helper()
	err := os.RemoveAll(n.in(name))
	testkit.Must(n.t, errors.Join(err, os.WriteFile(n.in(name), []byte(n.contents[name]), 0o600)))
}

// works checks that certificate, certificates of clients, and token are those from before.
func (n *named) works(what string) {
	n.t.Helper()
	request := testkit.Value(http.NewRequest(http.MethodPut, "https://"+n.address+"/v1/system/gc", nil))(n.t)
	request.Header.Set("X-Nomad-Token", "secret")
	response, err := n.client.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		n.t.Errorf("%s: %v, %v", what, response, err)
		return
	}
	testkit.NoError(n.t, response.Body.Close())
}

// times counts how often the agent has logged a text.
func (n *named) times(text string) int {
	n.t.Helper()
	return strings.Count(string(testkit.Value(os.ReadFile(n.log.Name()))(n.t)), text)
}

const (
	reloaded    = "reloaded configuration"
	notReloaded = "everything stays as it was"
)

// reload sends SIGHUP and waits until the agent has logged one more of a text.
func (n *named) reload(what, text string) {
	n.t.Helper()
	before := n.times(text)
	n.hangup()
	n.eventually(what+": "+text, func() bool { return n.times(text) > before })
}

// unfit is what may be in the place of a file.
func unfit() map[string]func(path string) error {
	return map[string]func(string) error{
		"FIFO":       func(path string) error { return unix.Mkfifo(path, 0o600) },
		"directory":  func(path string) error { return os.Mkdir(path, 0o700) },
		"socket":     func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
		"device":     func(path string) error { return os.Symlink("/dev/zero", path) },
		"1 GiB":      func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<30)) },
		"unreadable": func(path string) error { return os.Symlink("/proc/self/mem", path) },
		"loop":       func(path string) error { return os.Symlink(path, path) },
		"absent":     func(string) error { return nil },
	}
}

// TestFilesByNameAtStart puts something else in the place of each file: the agent ends with an error that names it.
func TestFilesByNameAtStart(t *testing.T) {
	n := newNamed(t)
	for name := range n.contents {
		for kind, put := range unfit() {
			testkit.Must(t, errors.Join(os.RemoveAll(n.in(name)), put(n.in(name))))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			cmd := exec.CommandContext(ctx, rig.Tacho(), "agent", "-config", n.config, "--job", n.in("job"))
			said, err := cmd.CombinedOutput()
			if err == nil || ctx.Err() != nil || !strings.Contains(string(said), n.in(name)) {
				t.Errorf("%s is a %s: %v: %s", name, kind, err, said)
			}
			cancel()
			n.restore(name)
		}
	}
}

// TestFilesByNameAtReload does the same to an agent that runs: the error names the file, what was read before stays, the
// next reload works, and the agent ends whatever is there.
func TestFilesByNameAtReload(t *testing.T) {
	n := newNamed(t)
	n.begin()
	delete(n.contents, "job") // which is read at the start only
	for name := range n.contents {
		for kind, put := range unfit() {
			what := name + " is a " + kind
			before := n.times(n.in(name))
			testkit.Must(t, errors.Join(os.RemoveAll(n.in(name)), put(n.in(name))))
			n.reload(what, notReloaded)
			if n.times(n.in(name)) == before {
				t.Errorf("%s: the error does not name it", what)
			}
			n.works(what)
			n.restore(name)
			n.reload(what, reloaded)
		}
	}
	t.Run("replaced while read", n.replaceWhileRead)
	for name := range n.contents {
		testkit.Must(t, errors.Join(os.RemoveAll(n.in(name)), unix.Mkfifo(n.in(name), 0o600)))
	}
	n.hangup()
	began := time.Now()
	n.end(syscall.SIGTERM)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s to end", took)
	}
}

// replaceWhileRead puts files and FIFOs in each other's place while the agent reads them.
func (n *named) replaceWhileRead(t *testing.T) {
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			for name, text := range n.contents {
				next := n.in(name) + ".next"
				if i%2 == 0 {
					err = errors.Join(err, unix.Mkfifo(next, 0o600))
				} else {
					err = errors.Join(err, os.WriteFile(next, []byte(text), 0o600))
				}
				err = errors.Join(err, os.Rename(next, n.in(name)))
			}
		}
		stopped <- err
	}()
	for range 100 {
		before := n.times(reloaded) + n.times(notReloaded)
		n.hangup()
		n.eventually("the end of a reload", func() bool { return n.times(reloaded)+n.times(notReloaded) > before })
	}
	close(stop)
	testkit.NoError(t, <-stopped)
	for name := range n.contents {
		n.restore(name)
	}
	n.reload("after all", reloaded)
	n.works("after all")
}
