// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/testkit"
)

func open(t *testing.T, o Options) *Client {
	t.Helper()
	c := testkit.Value(New(o))(t)
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return open(t, Options{Address: server.URL, Token: "secret"})
}

func TestAddresses(t *testing.T) {
	for address, good := range map[string]bool{
		"unix:/run/tacho.sock": true, "unix:///run/tacho.sock": true, "http://127.0.0.1:4656": true, "https://[::1]:4656/": true,
		"": false, "unix:": false, "127.0.0.1:4656": false, "ftp://host": false, "http://": false, "http://%": false,
	} {
		if _, err := New(Options{Address: address}); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestPathsAreEscaped(t *testing.T) {
	var asked string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.RequestURI
		_, _ = io.WriteString(w, "{}")
	})
	if _, err := c.Job(t.Context(), "a/b?c%d e"); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, asked, "/v1/job/a%2Fb%3Fc%25d%20e", "result")
}

func TestErrorsHaveTheAgentsText(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Nomad-Token") != "secret" {
			t.Error("the token was not sent")
		}
		if strings.HasSuffix(r.URL.Path, "silent") {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		http.Error(w, "there is no such job", http.StatusNotFound)
	})
	_, err := c.Job(t.Context(), "x")
	if !IsNotFound(err) || err.Error() != "there is no such job" {
		t.Errorf("%v", err)
	}
	if _, err = c.Job(t.Context(), "silent"); IsNotFound(err) || err.Error() != "the agent answered 502 Bad Gateway" {
		t.Errorf("%v", err)
	}
	if _, err := c.Exec(t.Context(), "x", ExecOptions{Command: []string{"sh"}}); !IsNotFound(err) {
		t.Errorf("exec: %v", err)
	}
	if _, err := c.Logs(t.Context(), "x", LogQuery{Stream: "stdout"}); !IsNotFound(err) {
		t.Errorf("logs: %v", err)
	}
}

func TestAnswersThatAreNotJSON(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
	if _, err := c.Jobs(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "read answer of /v1/jobs") {
		t.Errorf("%v", err)
	}
	events := testkit.Value(c.Events(t.Context(), 0, false))(t)
	defer events.Close()
	if _, _, err := events.Next(); err == nil {
		t.Error("an event was read out of HTML")
	}
}

func TestNobodyAnswers(t *testing.T) {
	c := open(t, Options{Address: "unix:" + filepath.Join(t.TempDir(), "none.sock")})
	if _, err := c.Self(t.Context()); !errors.Is(err, ErrUnreachable) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Self(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestSlowAgent(t *testing.T) {
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.StopJob(ctx, "x", false); !errors.Is(err, ErrSlow) || errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
}

func TestWaitsForWhatComesNext(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("index") != "7" || q.Get("wait") != "20s" {
			t.Errorf("query %v", q)
		}
		w.Header().Set("X-Nomad-Index", "9")
		_, _ = io.WriteString(w, `[{"ID":"a","ClientStatus":"failed"}]`)
	})
	got, err := c.JobAllocations(t.Context(), "x", Wait{Index: 7, For: 20 * time.Second})
	if err != nil || got.Index != 9 || len(got.Value) != 1 || !got.Value[0].Ended() {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAllocationEndsWithItsLastTask(t *testing.T) {
	for name, test := range map[string]struct {
		status string
		states []string
		want   bool
	}{
		"none began":         {"failed", nil, true},
		"all dead":           {"complete", []string{"dead", "dead"}, true},
		"one is being ended": {"failed", []string{"dead", "running"}, false},
		"one is dead":        {"running", []string{"dead", "running"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := apijson.Allocation{ClientStatus: test.status, TaskStates: map[string]*apijson.TaskState{}}
			for i, state := range test.states {
				a.TaskStates[fmt.Sprint(i)] = &apijson.TaskState{State: state}
			}
			testkit.Equal(t, a.Ended(), test.want, "Ended is")
		})
	}
}

func TestEventsOfSeveralLines(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "{}\n{\"Index\":3,\"Events\":[{\"Index\":3,\"Type\":\"A\"},{\"Index\":3,\"Type\":\"B\"}]}\n")
	})
	events := testkit.Value(c.Events(t.Context(), 0, true))(t)
	defer events.Close()
	var got []string
	for {
		event, heartbeat, err := events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		testkit.Must(t, err)
		if heartbeat {
			got = append(got, "-")
		} else {
			got = append(got, event.Type, string(event.JSON))
		}
	}
	if want := `- A {"Index":3,"Type":"A"} B {"Index":3,"Type":"B"}`; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestTrustsTheGivenCertificates(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	t.Cleanup(server.Close)
	_, err := open(t, Options{Address: server.URL}).Self(t.Context())
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); !untrusted || errors.Is(err, ErrUnreachable) {
		t.Errorf("a stranger's certificate: %v", err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	testkit.Must(t, os.WriteFile(file, text, 0o600))
	if _, err := open(t, Options{Address: server.URL, CAFile: file}).Self(t.Context()); err != nil {
		t.Errorf("a trusted one: %v", err)
	}
	testkit.Must(t, os.WriteFile(file, []byte("nothing"), 0o600))
	if _, err := New(Options{Address: server.URL, CAFile: file}); err == nil {
		t.Error("a file without certificates was taken")
	}
}
