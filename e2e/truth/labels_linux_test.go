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
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
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
	nothing := map[string]procstats.Guarantee{"network_received_bytes_total": procstats.Exact, "network_sent_bytes_total": procstats.Exact}
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
		{"a socket on which nothing is handed over", []string{"true"}, unix.AF_UNIX, nothing, nil},
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
// however it came, and however long the task had it; and that they are of one that only talks with others.
func TestSockets(t *testing.T) {
	rig.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("sockets are looked for for root")
	}
	udp := testkit.Value(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(udp) })
	tcp := connected(t)
	dir := t.TempDir()
	silent := serve(t, "unix", filepath.Join(dir, "silent"), nil)
	stream, packets := strconv.Itoa(unix.SOCK_STREAM), strconv.Itoa(unix.SOCK_SEQPACKET)
	for _, test := range []struct {
		name string
		way  []string
		hand int // the socket that is handed to who listens or has inherited
		want procstats.Guarantee
	}{
		{"own", []string{"own"}, 0, procstats.Exact},
		{"nothing of a server", []string{"talks", stream, silent}, 0, procstats.Exact},
		{"packet", []string{"packet"}, 0, ""},
		{"outside the cgroup", []string{"left"}, 0, ""},
		{"elsewhere", []string{"elsewhere"}, 0, ""},
		{"by a server", []string{"handed", stream, serve(t, "unix", filepath.Join(dir, "udp"), unix.UnixRights(udp))}, 0, ""},
		{"TCP by a server", []string{"handed", packets, serve(t, "unixpacket", filepath.Join(dir, "tcp"), unix.UnixRights(tcp))}, 0, ""},
		{"by a client", []string{"listening", stream, filepath.Join(dir, "stream")}, udp, ""},
		{"TCP by a client", []string{"listening", packets, filepath.Join(dir, "packets")}, tcp, ""},
		{"by datagram", []string{"listening", strconv.Itoa(unix.SOCK_DGRAM), filepath.Join(dir, "datagram")}, udp, ""},
		{"by the parent", []string{"inherited"}, udp, ""},
		{"taken", []string{"taken", strconv.Itoa(os.Getpid()), strconv.Itoa(udp)}, 0, ""},
	} {
		for _, stay := range []string{"0s", "1s", "close"} {
			t.Run(test.name+" "+stay, func(t *testing.T) {
				place := rig.NewPlace(t, rig.Self())
				cmd := place.Run(t.Context(), slices.Concat([]string{"--", rig.Workload(), "network", stay}, test.way)...)
				if test.hand != 0 {
					hand(t, cmd, test.way, unix.UnixRights(test.hand))
				}
				if out := rig.Capture(t, cmd); out.Code != 0 {
					t.Fatal(out.Code, out.Stderr)
				}
				check(t, counted(t, place), map[string]procstats.Guarantee{
					"network_received_bytes_total": test.want, "network_sent_bytes_total": test.want,
				}, nil)
			})
		}
	}
}

// connected returns a TCP socket that is connected.
func connected(t *testing.T) (fd int) {
	t.Helper()
	listener := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	conn := testkit.Value(net.Dial("tcp", listener.Addr().String()))(t)
	t.Cleanup(func() { conn.Close() })
	file := testkit.Value(conn.(*net.TCPConn).File())(t)
	t.Cleanup(func() { file.Close() })
	return int(file.Fd())
}

// serve sends a byte, with the rights, to each client of a server.
func serve(t *testing.T, network, path string, rights []byte) string {
	t.Helper()
	listener := testkit.Value(net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network}))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.AcceptUnix()
			if err != nil {
				return
			}
			_, _, _ = conn.WriteMsgUnix([]byte{0}, rights, nil) // without it the task fails
			conn.Close()
		}
	}()
	return path
}

// hand sends a byte with the rights to the command that is about to be started: over its standard input, or to where it
// listens.
func hand(t *testing.T, cmd *exec.Cmd, way []string, rights []byte) {
	t.Helper()
	if way[0] == "inherited" {
		pair := testkit.Value(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
		t.Cleanup(func() { unix.Close(pair[0]) })
		input := os.NewFile(uintptr(pair[1]), "input")
		t.Cleanup(func() { input.Close() })
		cmd.Stdin = input
		testkit.Must(t, unix.Sendmsg(pair[0], []byte{0}, rights, nil, 0))
		return
	}
	kind, to := testkit.Value(strconv.Atoi(way[1]))(t), &unix.SockaddrUnix{Name: way[2]}
	_ = os.Remove(way[2]) // of the run before
	fd := testkit.Value(unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0))(t)
	go func() {
		defer unix.Close(fd)
		for unix.Connect(fd, to) != nil && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		_ = unix.Sendmsg(fd, []byte{0}, rights, nil, 0) // without it the task waits
	}()
}

// counted returns the record of the run. It skips where neither ended processes nor packets can be counted; they can
// where all that ended was outside the cgroup, and labels hold then, too.
func counted(t *testing.T, place *rig.Place) *record.Record {
	t.Helper()
	r := place.TheRun(t).Record
	for _, s := range r.Sources {
		ended := strings.Contains(s.Reason, "the kernel did not report its end")
		if (s.Name == "exits" || s.Name == "skb") && !s.Available && !ended {
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
