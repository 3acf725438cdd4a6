// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package doctor

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// link adds a symbolic link that leads nowhere, as those of /proc/PID/ns do.
func link(t *testing.T, host Host, name, target string) {
	t.Helper()
	path := filepath.Join(host.Root, name)
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.Must(t, os.Symlink(target, path))
}

func TestWhere(t *testing.T) {
	for _, test := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"the machine itself", nil, []string{"no sign of a container"}},
		{"Docker", map[string]string{".dockerenv": ""}, []string{"Docker (/.dockerenv)"}},
		{"Kubernetes on containerd", map[string]string{
			"var/run/secrets/kubernetes.io/serviceaccount/token": "", "proc/self/cgroup": "0::/kubepods/burstable/podx/y\n",
		}, []string{"Kubernetes (/var/run/secrets/kubernetes.io)", "cgroup of kubepods"}},
		{"LXC", map[string]string{"proc/1/environ": "PATH=/bin\x00container=lxc\x00"}, []string{"lxc (environment of process 1)"}},
		{"nspawn", map[string]string{"run/systemd/container": "systemd-nspawn\n"}, []string{"systemd-nspawn (/run/systemd/container)"}},
	} {
		c := checkWhere(hostOf(t, test.files))
		for _, want := range test.want {
			if !strings.Contains(c.Found, want) {
				t.Errorf("%s: %q, want %q", test.name, c.Found, want)
			}
		}
	}
}

func TestNamespaces(t *testing.T) {
	host := hostOf(t, nil)
	link(t, host, "proc/self/ns/cgroup", "cgroup:[4026531835]")
	link(t, host, "proc/self/ns/pid", "pid:[4026531836]")
	link(t, host, "proc/self/ns/user", "user:[4026531837]")
	if c := checkNamespaces(host); c.State != Works || c.Enable != "" {
		t.Errorf("the first namespaces: %+v", c)
	}
	host = hostOf(t, nil)
	link(t, host, "proc/self/ns/cgroup", "cgroup:[4026532567]")
	link(t, host, "proc/self/ns/user", "user:[4026532001]")
	c := checkNamespaces(host)
	if c.State != Partly || c.Found != "not in the initial namespaces: cgroup, user" || c.Enable != "in a container: docker run --cgroupns=host --userns=host" {
		t.Errorf("%+v", c)
	}
	if c := checkOOMScore(host); c.State != Partly {
		t.Errorf("root of a user namespace: %+v", c)
	}
}

func TestHidden(t *testing.T) {
	for _, test := range []struct {
		name, mountinfo, capabilities string
		state                         State
	}{
		{"nothing hidden", "23 1 0:21 / /proc rw - proc proc rw\n", "0", Works},
		{"hidden", "23 1 0:21 / /proc rw - proc proc rw,hidepid=invisible\n", "0", Partly},
		{"by number", "23 1 0:21 / /proc rw - proc proc rw,gid=4242,hidepid=2\n", "0", Partly},
		{"hidden, from others", "23 1 0:21 / /proc rw - proc proc rw,hidepid=2\n", "80000", Works},
		{"another proc", "23 1 0:21 / /mnt/proc rw - proc proc rw,hidepid=2\n", "0", Works},
		{"one on another", "23 1 0:21 / /proc rw - proc proc rw,hidepid=2\n24 23 0:22 / /proc rw - proc proc rw\n", "0", Works},
	} {
		host := hostOf(t, map[string]string{
			"proc/self/mountinfo": test.mountinfo, "proc/self/status": "CapEff:\t" + test.capabilities + "\n",
		})
		if c := checkHidden(host); c.State != test.state || (c.Costs == "") != (test.state == Works) {
			t.Errorf("%s: %+v, want %s", test.name, c, test.state)
		}
	}
}

func TestSecurityModule(t *testing.T) {
	refused := cgroup.None("no cgroup in memory: permission denied")
	made := &cgroup.Group{Cgroup: procstats.Cgroup{V2: "/x"}}
	selinux := map[string]string{
		"sys/fs/selinux/enforce": "1", "proc/self/attr/current": "system_u:system_r:container_t:s0:c1,c2\x00",
		"proc/self/status": "CapEff:\t00000000000000002\n",
	}
	confined := func(file string) map[string]string {
		return map[string]string{file: "docker-default (enforce)\n", "proc/self/status": "CapEff:\t2\n"}
	}
	before58 := confined("proc/self/attr/current")
	before58["sys/kernel/security/lsm"] = "lockdown,capability,apparmor"
	container := maps.Clone(selinux)
	delete(container, "sys/fs/selinux/enforce")
	for _, test := range []struct {
		name   string
		files  map[string]string
		group  *cgroup.Group
		state  State
		found  string
		enable string
	}{
		{"none", nil, refused, Works, "neither", ""},
		{"not confined", map[string]string{"proc/self/attr/current": "unconfined\n"}, refused, Works, "neither", ""},
		{"SELinux, harmless", selinux, made, Works, "container_t:s0:c1,c2", ""},
		{"SELinux denies", selinux, refused, Partly, "SELinux is enforcing", "label=disable"},
		{"SELinux denies in a container", container, refused, Partly, "SELinux labels this process system_u", "label=disable"},
		{"AppArmor denies", confined("proc/self/attr/apparmor/current"), refused, Partly, "docker-default (enforce)", "apparmor=unconfined"},
		{"AppArmor denies before 5.8", before58, refused, Partly, "docker-default (enforce)", "apparmor=unconfined"},
		{"SELinux without a policy", map[string]string{"proc/self/attr/current": "kernel\x00", "proc/self/status": "CapEff:\t2\n"}, refused, Works, "neither", ""},
		{"no permission anyway", map[string]string{"sys/fs/selinux/enforce": "1", "proc/self/status": "CapEff:\t0\n"}, refused, Works, "enforcing", ""},
	} {
		c := checkSecurityModule(hostOf(t, test.files), test.group)
		if c.State != test.state || !strings.Contains(c.Found, test.found) || !strings.Contains(c.Enable, test.enable) {
			t.Errorf("%s: %+v, want %s and %q", test.name, c, test.state, test.found)
		}
	}
}

func TestSeccomp(t *testing.T) {
	if c := checkSeccomp(hostOf(t, map[string]string{"proc/self/status": "Seccomp:\t0\n"})); c.Found != "none" {
		t.Errorf("%+v", c)
	}
	// What a filter denies is tried; that needs one, which e2e/where has.
	if c := checkSeccomp(hostOf(t, map[string]string{"proc/self/status": "Seccomp:\t2\n"})); !strings.HasPrefix(c.Found, "active") && c.State != Partly {
		t.Errorf("%+v", c)
	}
}
