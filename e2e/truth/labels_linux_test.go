// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestLabels holds the labels of ordinary short runs: no weaker than what is known, and no stronger.
func TestLabels(t *testing.T) {
	rig.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("the ends of processes, and packets, are recorded for root")
	}
	exact := map[string]procstats.Guarantee{
		"cpu_cores_average": procstats.Exact, "io_read_bytes_total": procstats.Exact, "io_write_handed_bytes_total": procstats.Exact,
		"network_received_bytes_total": procstats.Exact, "network_sent_bytes_total": procstats.Exact,
	}
	unknown := map[string]procstats.Guarantee{"network_received_bytes_total": "", "network_sent_bytes_total": ""}
	stored := map[string]procstats.Guarantee{"io_write_bytes_total": procstats.Exact}
	for _, test := range []struct {
		name    string
		command []string
		socket  int // the domain of a socket that is the standard input
		want    map[string]procstats.Guarantee
		values  map[string]float64
	}{
		{"sleeps", []string{"sleep", "0.2"}, 0, exact, map[string]float64{"io_write_handed_bytes_total": 0}},
		{"writes nothing", []string{"sh", "-c", "sleep 0.1 & wait"}, 0, stored, map[string]float64{"io_write_bytes_total": 0}},
		{
			"what it writes is deleted",
			[]string{"sh", "-c", "head -c 8388608 /dev/zero > x; rm x; sleep 0.1"},
			0,
			exact,
			map[string]float64{"io_write_handed_bytes_total": 8 << 20, "io_write_bytes_total": 0},
		},
		{"a socket from outside", []string{"sleep", "0.1"}, unix.AF_INET, unknown, nil},
		{"a socket from outside, and no sample", []string{"true"}, unix.AF_INET, unknown, nil},
		{"a socket on which others can be handed over", []string{"true"}, unix.AF_UNIX, unknown, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			place := rig.NewPlace(t, rig.Self())
			cmd := place.Run(t.Context(), slices.Concat([]string{"--"}, test.command)...)
			cmd.Dir = place.Dir
			if test.socket != 0 {
				fd := testkit.Value(unix.Socket(test.socket, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))(t)
				socket := os.NewFile(uintptr(fd), "socket")
				defer socket.Close()
				cmd.Stdin = socket
			}
			if out := rig.Capture(t, cmd); out.Code != 0 {
				t.Fatal(out.Code, out.Stderr)
			}
			r := counted(t, place)
			check(t, r, test.want, test.values)
		})
	}
}

// TestSockets holds that no packets are said to be exactly 0 of a task that had a socket whose packets are not counted,
// however it came, and however long the task had it.
func TestSockets(t *testing.T) {
	rig.Require(t)
	if os.Geteuid() != 0 || !kernel.OSRelease(kernel.HostFS()).AtLeast(6, 1) {
		t.Skip("sockets are looked for when processes end for root, since Linux 6.1")
	}
	socket := testkit.Value(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(socket) })
	server := filepath.Join(t.TempDir(), "s")
	listener := testkit.Value(net.ListenUnix("unixpacket", &net.UnixAddr{Name: server, Net: "unixpacket"}))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.AcceptUnix()
			if err != nil {
				return
			}
			_, _, _ = conn.WriteMsgUnix([]byte{0}, unix.UnixRights(socket), nil) // without it the task fails
			conn.Close()
		}
	}()
	for _, way := range [][]string{
		{"own"},
		{"packet"},
		{"closed"},
		{"elsewhere"},
		{"handed", server},
		{"taken", strconv.Itoa(os.Getpid()), strconv.Itoa(socket)},
	} {
		for _, stay := range []string{"0s", "1s"} {
			t.Run(way[0]+" for "+stay, func(t *testing.T) {
				if way[0] == "closed" && !kernel.OSRelease(kernel.HostFS()).AtLeast(6, 14) {
					t.Skip("before Linux 6.14 no tracepoint shows checks of capabilities")
				}
				place := rig.NewPlace(t, rig.Self())
				cmd := place.Run(t.Context(), append([]string{"--", rig.Workload(), "network", stay}, way...)...)
				if out := rig.Capture(t, cmd); out.Code != 0 {
					t.Fatal(out.Code, out.Stderr)
				}
				r := counted(t, place)
				var want procstats.Guarantee
				if way[0] == "own" {
					want = procstats.Exact
				}
				check(t, r, map[string]procstats.Guarantee{
					"network_received_bytes_total": want, "network_sent_bytes_total": want,
				}, nil)
			})
		}
	}
}

// counted returns the record of the run. It skips where neither ended processes nor packets can be counted.
func counted(t *testing.T, place *rig.Place) *record.Record {
	t.Helper()
	r := place.TheRun(t).Record
	for _, s := range r.Sources {
		if (s.Name == "exits" || s.Name == "skb") && !s.Available {
			t.Skip(s.Reason)
		}
	}
	return r
}

// check holds the headlines of a record against their labels, none for absent ones, and their values.
func check(t *testing.T, r *record.Record, want map[string]procstats.Guarantee, values map[string]float64) {
	t.Helper()
	for name, guarantee := range want {
		if h := r.Headline[name]; h.Guarantee != guarantee || (h.Value == nil) != (guarantee == "") {
			t.Errorf("%s: %+v, want it %q", name, h, guarantee)
		}
	}
	for name, value := range values {
		if h := r.Headline[name]; h.Value == nil || *h.Value != value {
			t.Errorf("%s: %+v, want %v", name, h, value)
		}
	}
}

// TestRealtime holds that a command may have a real-time priority, before it is started and after.
func TestRealtime(t *testing.T) {
	rig.Require(t)
	chrt, err := exec.LookPath("chrt")
	if err != nil || exec.Command(chrt, "-r", "1", "true").Run() != nil {
		t.Skip("no real-time priority is had here")
	}
	for name, args := range map[string][2][]string{
		"before": {{chrt, "-r", "1"}, {"--", "true"}}, "after": {nil, {"--", chrt, "-r", "1", "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			place := rig.NewPlace(t, rig.Self())
			cmd := place.Run(t.Context(), args[1]...)
			if launcher := args[0]; launcher != nil {
				cmd = place.Command(t.Context(), launcher[0], append(launcher[1:], cmd.Args...)...)
			}
			if out := rig.Capture(t, cmd); out.Code != 0 {
				t.Error(out.Code, out.Stderr)
			}
		})
	}
}
