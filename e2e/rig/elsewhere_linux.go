// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import (
	"os"
	"os/exec"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// Elsewhere is a place from which the processes of this machine cannot be told: a command is called there with Wrap
// before it.
type Elsewhere struct {
	Name string
	Wrap []string
	// Where is what is said of a run from there.
	Where string
}

// bootID covers the boot id with another one, as some containers do; $0 is another machine's name, empty for this one.
const bootID = `b=$(mktemp); echo 00000000-0000-0000-0000-000000000001 > "$b"
mount --bind "$b" /proc/sys/kernel/random/boot_id
[ -z "$0" ] || { hostname "$0"; [ ! -e /etc/machine-id ] || mount --bind "$b" /etc/machine-id; }
rm "$b"; exec "$@"`

// Elsewheres returns all such places: another PID or time namespace, boot id and machine, and what they make together.
// They require root.
func Elsewheres(t testing.TB) []Elsewhere {
	t.Helper()
	if _, err := exec.LookPath("unshare"); err != nil || os.Geteuid() != 0 {
		t.Skip("making namespaces requires root and unshare(1)")
	}
	name := testkit.Value(os.Hostname())(t)
	const namespace, machine = "in another namespace", "another"
	inAll := []string{"unshare", "--time", "--boottime", "1", "--pid", "--kill-child", "--mount-proc", "--uts"}
	return []Elsewhere{
		{"PID", []string{"unshare", "--pid", "--kill-child", "--mount-proc"}, namespace},
		{"PID, the machine's proc", []string{"unshare", "--pid", "--kill-child"}, "not visible from here"},
		{"time", []string{"unshare", "--time", "--kill-child", "--boottime", "5000"}, namespace},
		{"time, into the past", []string{"unshare", "--time", "--kill-child", "--boottime", "-100"}, namespace},
		{"PID and time", inAll, namespace},
		{"boot", []string{"unshare", "--mount", "sh", "-c", bootID, ""}, namespace},
		{"machine", []string{"unshare", "--mount", "--uts", "sh", "-c", bootID, machine}, "running on " + name},
		{"all", append(inAll, "sh", "-c", bootID, machine), "running on " + name},
	}
}
