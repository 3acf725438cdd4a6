// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestActivated holds that packets are not said to be exactly 0, or all there were, of a task that was started with the
// sockets of a service, as systemd's socket activation does it: what it accepts belongs to them.
func TestActivated(t *testing.T) {
	rig.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("sockets are looked for for root")
	}
	for _, test := range []struct {
		name, way string
		networks  []string
		want      procstats.Guarantee
	}{
		{"UDP", "self", []string{"udp4"}, ""},
		{"UDP, version 6", "self", []string{"udp6"}, ""},
		{"TCP", "self", []string{"tcp4"}, ""},
		{"TCP, version 6", "self", []string{"tcp6"}, ""},
		{"TCP, by a child", "child", []string{"tcp4"}, ""},
		{"TCP, closed when one was accepted", "close", []string{"tcp4"}, ""},
		{"UDP beside an own socket", "own", []string{"udp4"}, ""},
		{"TCP beside an own socket", "own", []string{"tcp4"}, ""},
		{"several", "self", []string{"tcp4", "unix", "udp4"}, ""},
		{"AF_UNIX", "self", []string{"unix"}, procstats.Exact},
		{"AF_UNIX, by a child", "child", []string{"unix"}, procstats.Exact},
	} {
		for passer, pass := range map[string]func(*testing.T, *rig.Place, []string, ...string) *exec.Cmd{
			"a parent": passedByParent, "systemd": passedBySystemd,
		} {
			if passer == "systemd" && len(test.networks) > 1 {
				continue // it listens to sockets of one type
			}
			t.Run(test.name+" from "+passer, func(t *testing.T) {
				place := rig.NewPlace(t, rig.Self())
				cmd := pass(t, place, test.networks, "--", rig.Workload(), "network", "0s", "activated",
					strconv.Itoa(len(test.networks)), test.way)
				if out := rig.Capture(t, cmd); out.Code != 0 {
					t.Fatal(out.Code, out.Stderr)
				}
				r := counted(t, place)
				check(t, r, map[string]procstats.Guarantee{
					"network_received_bytes_total": test.want, "network_sent_bytes_total": test.want,
				}, nil)
				const packet = 20 + 8 + 1 // with the headers of IP and UDP
				if sent, _ := r.Measurements["skb_loopback_sent_bytes_total"].(float64); test.way == "own" && sent < packet {
					t.Errorf("%v bytes were sent over the loopback interface, want %d of the own socket", sent, packet)
				}
				if reason := r.Headline["network_sent_bytes_total"].Reason; test.want == "" && !strings.Contains(reason, "not counted") {
					t.Errorf("reason %q, want it to say that packets are not counted", reason)
				}
			})
		}
	}
}

// passedByParent has a parent listen, which passes its sockets on as descriptors from 3 on.
func passedByParent(t *testing.T, place *rig.Place, networks []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := place.Run(t.Context(), args...)
	cmd.Env = append(cmd.Env, "LISTEN_FDS="+strconv.Itoa(len(networks)))
	for _, network := range networks {
		socket, address := bound(t, place, network)
		t.Cleanup(func() { socket.Close() })
		cmd.ExtraFiles = append(cmd.ExtraFiles, socket)
		go talkTo(t, network, address)
	}
	return cmd
}

// passedBySystemd has systemd-socket-activate listen.
func passedBySystemd(t *testing.T, place *rig.Place, networks []string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath("systemd-socket-activate")
	if err != nil {
		t.Skip("no systemd-socket-activate")
	}
	socket, address := bound(t, place, networks[0])
	testkit.Must(t, socket.Close())
	flags := []string{"-l", address}
	if strings.HasPrefix(networks[0], "udp") {
		flags = append(flags, "-d")
	}
	run := place.Run(t.Context(), args...)
	for _, variable := range run.Env {
		flags = append(flags, "-E", variable)
	}
	go talkTo(t, networks[0], address)
	return place.Command(t.Context(), program, append(flags, run.Args...)...)
}

// bound returns a socket that is bound, and listens if it is of streams, and its address.
func bound(t *testing.T, place *rig.Place, network string) (socket *os.File, address string) {
	t.Helper()
	address = map[string]string{
		"udp4": "127.0.0.1:0", "tcp4": "127.0.0.1:0", "udp6": "[::1]:0", "tcp6": "[::1]:0", "unix": filepath.Join(place.Dir, "socket"),
	}[network]
	type filed interface {
		File() (*os.File, error)
		Close() error
	}
	var from filed
	if strings.HasPrefix(network, "udp") {
		conn := testkit.Value(net.ListenPacket(network, address))(t)
		from, address = conn.(*net.UDPConn), conn.LocalAddr().String()
	} else {
		listener := testkit.Value(net.Listen(network, address))(t)
		from, address = listener.(filed), listener.Addr().String()
		if unix, ok := listener.(*net.UnixListener); ok {
			unix.SetUnlinkOnClose(false)
		}
	}
	socket = testkit.Value(from.File())(t)
	testkit.Must(t, from.Close())
	return socket, address
}

// talkTo sends something to a server, again and again until it is answered: without it the task waits.
func talkTo(t *testing.T, network, address string) {
	for ; t.Context().Err() == nil; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial(network, address)
		if err != nil {
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if strings.HasPrefix(network, "udp") {
			_ = conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
		}
		_, errWrite := conn.Write([]byte{0})
		n, _ := conn.Read(make([]byte, 1))
		conn.Close()
		if errWrite == nil && n == 1 {
			return
		}
	}
}
