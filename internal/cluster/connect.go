// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/regular"
)

const defaultAddress = "http://127.0.0.1:4646"

// Connect returns the cluster that the environment names, with the variables of Nomad's command line. It does not
// connect yet.
func Connect(getenv func(name string) string) (*Cluster, error) {
	c := &Cluster{namespace: cmp.Or(getenv("NOMAD_NAMESPACE"), "default"), hasToken: getenv("NOMAD_TOKEN") != ""}
	o := client.Options{
		Address: cmp.Or(getenv("NOMAD_ADDR"), defaultAddress), Token: getenv("NOMAD_TOKEN"),
		Query: url.Values{"namespace": {c.namespace}},
	}
	if region := getenv("NOMAD_REGION"); region != "" {
		o.Query.Set("region", region)
	}
	if err := regular.CheckToken(o.Token); err != nil {
		return nil, fmt.Errorf("NOMAD_TOKEN: %w", err)
	}
	var err error
	if o.TLS, err = tlsOf(getenv); err != nil {
		return nil, err
	}
	if c.Client, err = client.New(o); err != nil {
		return nil, fmt.Errorf("NOMAD_ADDR=%s: %w", o.Address, err)
	}
	return c, nil
}

// tlsOf returns how https is spoken.
func tlsOf(getenv func(name string) string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: getenv("NOMAD_TLS_SERVER_NAME")}
	if skip := getenv("NOMAD_SKIP_VERIFY"); skip != "" {
		var err error
		if config.InsecureSkipVerify, err = strconv.ParseBool(skip); err != nil {
			return nil, fmt.Errorf("NOMAD_SKIP_VERIFY=%s: must be true or false", skip)
		}
	}
	for _, name := range []string{"NOMAD_CACERT", "NOMAD_CAPATH"} { // of both, Nomad's command line takes the first
		if path := getenv(name); path != "" && config.RootCAs == nil {
			roots, err := regular.Certificates(path)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			config.RootCAs = roots
		}
	}
	certificate, key := getenv("NOMAD_CLIENT_CERT"), getenv("NOMAD_CLIENT_KEY")
	if (certificate == "") != (key == "") {
		return nil, errors.New("NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY: one is set without the other")
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// explain adds the place and the remedy to errors of Nomad's API.
func (c *Cluster) explain(err error) error {
	remedy := ""
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	switch status := client.StatusOf(err); {
	case err == nil:
		return nil
	case status == http.StatusForbidden && !c.hasToken:
		remedy = fmt.Sprintf("NOMAD_TOKEN is not set: it needs the capability read-job in namespace %q", c.namespace)
	case status == http.StatusForbidden:
		remedy = fmt.Sprintf("NOMAD_TOKEN needs the capability read-job in namespace %q", c.namespace)
	case status == http.StatusBadRequest && strings.Contains(err.Error(), "HTTPS server"):
		remedy = "NOMAD_ADDR must begin with https://"
	case status != 0:
	case untrusted:
		remedy = "NOMAD_CACERT names the certificates to trust, NOMAD_TLS_SERVER_NAME the name in that of the server"
	case plain || strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		remedy = "it does not speak TLS: NOMAD_ADDR must begin with http://"
	case alert || strings.Contains(err.Error(), "remote error: tls"):
		remedy = "NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY name the certificate that it asks for"
	case errors.Is(err, client.ErrUnreachable):
		remedy = "NOMAD_ADDR names the address of a Nomad agent"
	default:
		return err
	}
	if remedy == "" {
		return fmt.Errorf("nomad at %s: %w", c.Address(), err)
	}
	return fmt.Errorf("nomad at %s: %w; %s", c.Address(), err, remedy)
}
