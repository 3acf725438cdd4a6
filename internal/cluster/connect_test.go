// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cluster_test

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/cluster"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestErrors holds that what fails names the place and the remedy.
func TestErrors(t *testing.T) {
	answering := func(status int, text string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, status) }))
		t.Cleanup(s.Close)
		return s
	}
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/allocations" {
			http.Error(w, "job not found", http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte("[]"))
	}))
	t.Cleanup(empty.Close)
	secure := httptest.NewTLSServer(empty.Config.Handler)
	t.Cleanup(secure.Close)
	asking := httptest.NewUnstartedServer(empty.Config.Handler)
	asking.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	asking.StartTLS()
	t.Cleanup(asking.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	testkit.Must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	denied := answering(http.StatusForbidden, "Permission denied").URL
	for _, test := range []struct {
		env, job, want string
	}{
		{"NOMAD_ADDR=" + denied, "", "nomad at " + denied + ": Permission denied; NOMAD_TOKEN is not set: it needs the capability read-job in namespace \"default\""},
		{"NOMAD_ADDR=" + denied + " NOMAD_TOKEN=x NOMAD_NAMESPACE=ns", "", `NOMAD_TOKEN needs the capability read-job in namespace "ns"`},
		{"NOMAD_ADDR=" + answering(500, "no cluster leader").URL, "", ": no cluster leader"},
		{"NOMAD_ADDR=http://127.0.0.1:1", "", "NOMAD_ADDR names the address of a Nomad agent"},
		{"NOMAD_ADDR=unix:///nowhere/nomad.sock", "", "no such file or directory; NOMAD_ADDR"},
		{"NOMAD_ADDR=ftp://host", "", "NOMAD_ADDR=ftp://host: must be unix:/path, http://host:port"},
		{"NOMAD_ADDR=" + empty.URL, "web", `job "web" is unknown in namespace "default"`},
		{"NOMAD_ADDR=" + empty.URL + " NOMAD_NAMESPACE=*", "web", `job "web" is unknown in namespace "*"`},
		{"NOMAD_ADDR=" + empty.URL + " NOMAD_NAMESPACE=typo", "", `no job in namespace "typo" has had allocations since`},
		{"NOMAD_ADDR=" + secure.URL, "", "NOMAD_CACERT names the certificates to trust"},
		{"NOMAD_ADDR=" + secure.URL + " NOMAD_CACERT=" + ca, "", "no job in namespace"},
		{"NOMAD_ADDR=" + secure.URL + " NOMAD_CAPATH=" + filepath.Dir(ca), "", "no job in namespace"},
		{"NOMAD_ADDR=" + secure.URL + " NOMAD_CAPATH=" + t.TempDir(), "", "contains no certificate"},
		{"NOMAD_ADDR=" + secure.URL + " NOMAD_CACERT=" + ca + " NOMAD_TLS_SERVER_NAME=other", "", "NOMAD_TLS_SERVER_NAME the name in"},
		{"NOMAD_ADDR=" + secure.URL + " NOMAD_SKIP_VERIFY=true", "", "no job in namespace"},
		{"NOMAD_ADDR=" + secure.URL + " NOMAD_SKIP_VERIFY=maybe", "", "NOMAD_SKIP_VERIFY=maybe: must be true or false"},
		{"NOMAD_ADDR=" + secure.URL + " NOMAD_CACERT=/nowhere.pem", "", "NOMAD_CACERT: open /nowhere.pem"},
		{"NOMAD_ADDR=" + secure.URL + " NOMAD_CLIENT_CERT=" + ca, "", "one is set without the other"},
		{"NOMAD_ADDR=" + secure.URL + " NOMAD_CLIENT_CERT=" + ca + " NOMAD_CLIENT_KEY=" + ca, "", "NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY: "},
		{"NOMAD_ADDR=" + asking.URL + " NOMAD_SKIP_VERIFY=1", "", "name the certificate that it asks for"},
		{"NOMAD_ADDR=" + strings.Replace(secure.URL, "https", "http", 1), "", "NOMAD_ADDR must begin with https://"},
		{"NOMAD_ADDR=" + strings.Replace(empty.URL, "http", "https", 1), "", "NOMAD_ADDR must begin with http://"},
	} {
		variables := map[string]string{}
		for pair := range strings.FieldsSeq(test.env) {
			name, value, _ := strings.Cut(pair, "=")
			variables[name] = value
		}
		c, err := cluster.Connect(func(name string) string { return variables[name] })
		if err == nil {
			_, err = c.Tasks(t.Context(), test.job, captured, nil)
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.env, err, test.want)
		}
	}
}

// TestPrometheus holds that what a Prometheus server saw counts, and that its bounds are those of a running task.
func TestPrometheus(t *testing.T) {
	for name, test := range map[string]struct {
		job, alloc string // the job, and the allocation that was seen if not one that Nomad has forgotten
		series     map[string]string
		want       string
	}{
		"forgotten by Nomad": {"middle", "", map[string]string{"cgroup_memory_peak": "104857600", "cpu_cores_average": "0.5", "steps": "400"}, "2 runs, 300 → 136 MiB, 100 → 1428 MHz"},
		"for a moment":       {"middle", "", map[string]string{"cgroup_memory_peak": "104857600", "cpu_cores_average": "0.5", "steps": "4"}, "2 runs, 300 → ? MiB, 100 → 1428 MHz, 0 kills: 1 run needed at least 100 MiB"},
		"killed":             {"middle", "", map[string]string{"cgroup_memory_peak": "104857600", "oom_kill": "1", "steps": "400"}, "2 runs, 300 → ? MiB, 100 → 130 MHz, 1 kills: 1 run with OOM kills"},
		"known to Nomad":     {"middle", "middle", map[string]string{"cgroup_memory_peak": "1048576", "steps": "1"}, "1 runs, 300 → 52 MiB"},
		"an earlier start":   {"middle", "middle", map[string]string{"cgroup_memory_peak": "104857600", "steps": "400"}, "2 runs, 300 → 136 MiB"},
		"running":            {"serving", "serving", map[string]string{"cgroup_memory_peak": "1048576", "cpu_cores_average": "0.5", "steps": "400"}, "1 runs, 300 → 64 MiB, 100 → 1428 MHz"},
		"no memory":          {"serving", "", map[string]string{"cpu_cores_average": "0.5", "steps": "400"}, "no series tacho_task_cgroup_memory_peak_bytes"},
		"not a number":       {"serving", "", map[string]string{"cgroup_memory_peak": "NaN", "steps": "400"}, "no series tacho_task_cgroup_memory_peak_bytes"},
		"nothing":            {"serving", "", nil, "no series tacho_task_cgroup_memory_peak_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			alloc, label := "gone", strings.Replace(test.job, "serving", "Serving", 1) // series have the name of a job, not its ID
			if test.alloc != "" {
				alloc = allocOf(t, test.alloc)
			}
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				query, result := r.URL.Query().Get("query"), ""
				if r.URL.Path != "/prefix/api/v1/query" || !strings.Contains(query, "[7d") {
					t.Errorf("%s", r.URL)
				}
				for part, value := range test.series {
					if part == "steps" == strings.HasPrefix(query, "count_over_time") && (part == "steps" || strings.Contains(query, part)) {
						result = `{"metric":{"namespace":"default","job":"` + label + `/dispatch-1","task_group":"g","task":"t","alloc_id":"` + alloc + `"},"value":[1,"` + value + `"]}`
					}
				}
				_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[` + result + `]}}`))
			}))
			defer s.Close()
			_, tasks := tasksOf(t, test.job)
			err := cluster.AddHistory(t.Context(), s.URL+"/prefix/", 7, tasks)
			got := text(tasks[0].Size(1000))
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
	for address, want := range map[string]string{"http://127.0.0.1:1": "prometheus at http://127.0.0.1:1: ", "nowhere": "prometheus at nowhere: must be"} {
		if err := cluster.AddHistory(t.Context(), address, 7, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}
