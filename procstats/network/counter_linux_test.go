// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package network_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
)

// host tries to count packets, and skips the test if this machine does not let it.
func host(t *testing.T) kernel.FS {
	t.Helper()
	fs := kernel.HostFS()
	if err := network.Try(fs); err != nil {
		if os.Getenv("TACHO_GUEST") != "" && !strings.Contains(err.Error(), "no hierarchy of cgroup version 2") {
			t.Fatal(err) // nothing is in the way
		}
		t.Skip(err)
	}
	return fs
}

// enter moves this process into a cgroup of its own until the end of the test.
func enter(t *testing.T, fs kernel.FS) (dir string) {
	t.Helper()
	own, err := kernel.FindCgroup(fs, os.Getpid())
	must(t, err)
	if dir, err = os.MkdirTemp(own.V2, "tacho-network-"); err != nil {
		t.Skipf("make a cgroup: %v", err)
	}
	move := func(to string) error {
		return os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
	}
	t.Cleanup(func() {
		noError(t, move(own.V2))
		noError(t, os.Remove(dir))
	})
	if err := move(dir); err != nil {
		t.Skipf("enter a cgroup: %v", err)
	}
	return dir
}

// namespace runs functions on a thread in a network namespace of its own.
type namespace struct {
	tid   int
	calls chan func()
}

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	n := &namespace{calls: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		n.tid = unix.Gettid()
		ready <- unix.Unshare(unix.CLONE_NEWNET)
		for call := range n.calls {
			call()
		}
	}()
	t.Cleanup(func() { close(n.calls) })
	if err := <-ready; err != nil {
		t.Skipf("make a network namespace: %v", err)
	}
	return n
}

func (n *namespace) do(call func()) {
	done := make(chan struct{})
	n.calls <- func() { defer close(done); call() }
	<-done
}

// ip runs ip(8) in the namespace.
func (n *namespace) ip(t *testing.T, args string) {
	t.Helper()
	var out []byte
	var err error
	n.do(func() { out, err = exec.Command("ip", strings.Fields(args)...).CombinedOutput() })
	if err != nil {
		t.Skipf("ip %s: %v: %s", args, err, out)
	}
}

// device reads the counters of an interface.
func (n *namespace) device(t *testing.T, name string) (c network.Counts) {
	t.Helper()
	var text []byte
	var err error
	n.do(func() { text, err = os.ReadFile("/proc/thread-self/net/dev") })
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(line), name+":"); found {
			var skip uint64
			if _, err = fmt.Sscan(rest, &c[network.Received].Bytes, &c[network.Received].Packets, &skip, &skip, &skip, &skip, &skip, &skip, &c[network.Sent].Bytes, &c[network.Sent].Packets); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

// pair makes two namespaces that a veth pair connects: the addresses of the first end in 1, those of the other in 2.
func pair(t *testing.T) (task, peer *namespace) {
	t.Helper()
	task, peer = newNamespace(t), newNamespace(t)
	task.ip(t, "link add name end0 type veth peer name end1 netns "+strconv.Itoa(peer.tid))
	for i, n := range []*namespace{task, peer} {
		for _, args := range []string{
			"link set lo up", "link set end%d up", "addr add 10.99.0.%d/24 dev end%d", "addr add fd99::%d/64 dev end%d nodad",
		} {
			if strings.HasPrefix(args, "addr") {
				n.ip(t, fmt.Sprintf(args, i+1, i))
			} else {
				n.ip(t, strings.ReplaceAll(args, "%d", strconv.Itoa(i)))
			}
		}
	}
	return task, peer
}

const streamed = 10 << 20

// traffic is one way of using the network: of a client in the task's namespace, with a server in the peer's.
type traffic struct {
	name, network, address string
	use                    func(t *testing.T, client, server net.Conn)
	// bytes is what goes each way at least; packets of UDP are exact.
	received, sent, packets uint64
}

// cases are the ways; TCP streams are read to their end before anything is compared.
func cases() []traffic {
	datagrams := func(t *testing.T, client, server net.Conn) {
		buffer := make([]byte, 2000)
		for range 1500 {
			exchange(t, client, server.(*net.UDPConn), buffer[:1000])
		}
	}
	out := func(t *testing.T, client, server net.Conn) {
		stream(t, client, server, bytes.NewReader(make([]byte, streamed)))
	}
	return []traffic{ // datagrams first: late acknowledgements of a connection would be counted among them
		{"UDP", "udp4", "10.99.0.2", datagrams, 1500 * 1028, 1500 * 1028, 1500},
		{"UDP over IPv6", "udp6", "fd99::2", datagrams, 1500 * 1048, 1500 * 1048, 1500},
		{"TCP out", "tcp4", "10.99.0.2", out, 0, streamed, 0},
		{"TCP in", "tcp4", "10.99.0.2", func(t *testing.T, client, server net.Conn) { out(t, server, client) }, streamed, 0, 0},
		{"TCP over IPv6", "tcp6", "fd99::2", out, 0, streamed, 0},
		{"sendfile", "tcp4", "10.99.0.2", func(t *testing.T, client, server net.Conn) {
			file := testkit.Value(os.CreateTemp(t.TempDir(), ""))(t)
			defer file.Close()
			must(t, file.Truncate(streamed))
			stream(t, client, server, file)
		}, 0, streamed, 0},
		{"small packets", "tcp4", "10.99.0.2", func(t *testing.T, client, server net.Conn) {
			one := make([]byte, 1)
			for range 30_000 {
				write(t, client, one)
				read(t, server, one)
			}
		}, 0, 30_000 * 41, 0},
	}
}

// exchange sends a datagram and answers it.
func exchange(t *testing.T, client net.Conn, server *net.UDPConn, datagram []byte) {
	t.Helper()
	write(t, client, datagram)
	_, from, err := server.ReadFrom(datagram)
	if err == nil {
		_, err = server.WriteTo(datagram, from)
	}
	must(t, err)
	read(t, client, datagram)
}

func write(t *testing.T, to net.Conn, data []byte) {
	t.Helper()
	if _, err := to.Write(data); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, from net.Conn, data []byte) {
	t.Helper()
	if _, err := from.Read(data); err != nil {
		t.Fatal(err)
	}
}

// stream sends all of data.
func stream(t *testing.T, from, to net.Conn, data io.Reader) {
	t.Helper()
	sent := make(chan error)
	go func() {
		_, err := io.Copy(from, data)
		sent <- err
	}()
	if n, err := io.CopyN(io.Discard, to, streamed); err != nil {
		t.Fatalf("after %d bytes: %v", n, err)
	}
	must(t, <-sent)
}

// serve returns the address of a server in the peer's namespace, and its end of a connection. Its socket is made
// before this process enters the cgroup.
func (c *traffic) serve(t *testing.T, peer *namespace) (server func() net.Conn, address string) {
	t.Helper()
	var err error
	at := net.JoinHostPort(c.address, "0")
	if strings.HasPrefix(c.network, "udp") {
		var conn net.PacketConn
		if peer.do(func() { conn, err = net.ListenPacket(c.network, at) }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return func() net.Conn { return conn.(*net.UDPConn) }, conn.LocalAddr().String()
	}
	var listener net.Listener
	if peer.do(func() { listener, err = net.Listen(c.network, at) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return func() net.Conn {
		conn := testkit.Value(listener.Accept())(t)
		t.Cleanup(func() { conn.Close() })
		return conn
	}, listener.Addr().String()
}

// TestTraffic holds what is counted against the interface: a socket of another cgroup is at its other end.
func TestTraffic(t *testing.T) {
	fs := host(t)
	task, peer := pair(t)
	ways := cases()
	servers, addresses := make([]func() net.Conn, len(ways)), make([]string, len(ways))
	for i := range ways {
		servers[i], addresses[i] = ways[i].serve(t, peer)
	}
	dir := enter(t, fs)
	counter := testkit.Value(network.Count(fs, dir))(t)
	defer counter.Close()
	for i := range ways {
		t.Run(ways[i].name, func(t *testing.T) { ways[i].check(t, task, counter, servers[i], addresses[i]) })
	}
}

func (c *traffic) check(t *testing.T, task *namespace, counter *network.Counter, server func() net.Conn, address string) {
	before, device := counter.Read(), task.device(t, "end0")
	var client net.Conn
	var err error
	if task.do(func() { client, err = net.Dial(c.network, address) }); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c.use(t, client, server())
	counted, wire := minus(counter.Read(), before), minus(task.device(t, "end0"), device)
	if counted[network.ReceivedLoopback].Packets+counted[network.SentLoopback].Packets != 0 {
		t.Errorf("counted as loopback: %+v", counted)
	}
	for _, way := range []struct {
		name          string
		counted, wire network.Traffic
		least         uint64
	}{{"received", counted[network.Received], wire[network.Received], c.received}, {"sent", counted[network.Sent], wire[network.Sent], c.sent}} {
		if way.counted.Bytes < way.least {
			t.Errorf("%s %d bytes, want at least %d", way.name, way.counted.Bytes, way.least)
		}
		want := float64(way.wire.Bytes - 14*way.wire.Packets)
		if way.least > 0 && math.Abs(float64(way.counted.Bytes)-want) > want/100 {
			t.Errorf("%s %d bytes, on the interface %.0f", way.name, way.counted.Bytes, want)
		}
		if c.packets > 0 && (way.counted.Packets != c.packets || way.counted.Bytes != way.least) {
			t.Errorf("%s %d packets of %d bytes, want %d of %d", way.name, way.counted.Packets, way.counted.Bytes, c.packets, way.least)
		}
	}
	t.Logf("counted %+v, interface %+v", counted, wire)
}

func minus(a, b network.Counts) network.Counts {
	for way := range a {
		a[way].Bytes -= b[way].Bytes
		a[way].Packets -= b[way].Packets
	}
	return a
}

// TestLoopback holds that datagrams over the loopback interface are counted apart, and that the counts outlive the
// cgroup.
func TestLoopback(t *testing.T) {
	fs := host(t)
	dir := enter(t, fs)
	nested := filepath.Join(dir, "nested")
	must(t, os.Mkdir(nested, 0o755))
	s := network.Open(fs, procstats.DefaultSelection(), nested, false)
	defer s.Close()
	enterNested(t, nested, dir)
	must(t, os.Remove(nested))
	var sample procstats.Sample
	s.Collect(&sample)
	for id, want := range map[procstats.ID]float64{
		procstats.SkbReceivedPackets: 0, procstats.SkbSentPackets: 0, procstats.SkbLoopbackReceivedPackets: 100,
		procstats.SkbLoopbackSentPackets: 100, procstats.SkbLoopbackSent: 12_800, procstats.SkbLoopbackReceived: 12_800,
	} {
		if got, ok := sample.Task.Number(id); !ok || got != want {
			t.Errorf("%s = %v, %v, want %v", id, got, ok, want)
		}
	}
	if r, found := sample.Task.Get(procstats.SkbStartTime); !found || r.Present() {
		t.Error("a task that was counted from its start has a time at which counting began")
	}
}

// TestLoopbackStream holds both ends of a TCP connection against the interface: large packets are counted as sent
// before the kernel divides them, and nothing that is low is called exact.
func TestLoopbackStream(t *testing.T) {
	fs, task := host(t), newNamespace(t)
	task.ip(t, "link set lo up")
	counter, err := network.Count(fs, enter(t, fs))
	must(t, err)
	defer counter.Close()
	device := task.device(t, "lo")
	server, address := (&traffic{network: "tcp4", address: "127.0.0.1"}).serve(t, task)
	var client net.Conn
	if task.do(func() { client, err = net.Dial("tcp4", address) }); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	stream(t, client, server(), bytes.NewReader(make([]byte, streamed)))
	counted, wire := counter.Read(), minus(task.device(t, "lo"), device)
	want := wire[network.Received].Bytes // lo counts no header of its own
	if counted[network.ReceivedLoopback].Packets > wire[network.Received].Packets || counted[network.ReceivedLoopback].Bytes > want || counted[network.ReceivedLoopback].Bytes < streamed {
		t.Errorf("received %+v, on the interface %d packets and %d bytes", counted[network.ReceivedLoopback], wire[network.Received].Packets, want)
	}
	if sent := counted[network.SentLoopback]; sent.Packets > wire[network.Sent].Packets || sent.Bytes > want || float64(sent.Bytes) < 0.999*float64(want) {
		t.Errorf("sent %+v, on the interface %d packets and %d bytes", sent, wire[network.Sent].Packets, want)
	}
	for id, value := range map[procstats.ID][2]uint64{
		procstats.SkbLoopbackSent:            {counted[network.SentLoopback].Bytes, want},
		procstats.SkbLoopbackSentPackets:     {counted[network.SentLoopback].Packets, wire[network.Sent].Packets},
		procstats.SkbLoopbackReceived:        {counted[network.ReceivedLoopback].Bytes, want},
		procstats.SkbLoopbackReceivedPackets: {counted[network.ReceivedLoopback].Packets, wire[network.Received].Packets},
	} {
		if m, _ := procstats.Lookup(id); m.Guarantee == procstats.Exact && value[0] != value[1] {
			t.Errorf("%s is %d and %s, on the interface %d", id, value[0], m.Guarantee, value[1])
		}
	}
	t.Logf("counted %+v, interface %+v", counted, wire)
}

// enterNested sends 100 datagrams of 100 bytes to itself from the cgroup nested, and comes back to dir.
func enterNested(t *testing.T, nested, dir string) {
	t.Helper()
	pid := []byte(strconv.Itoa(os.Getpid()))
	must(t, os.WriteFile(filepath.Join(nested, "cgroup.procs"), pid, 0))
	server := testkit.Value(net.ListenPacket("udp4", "127.0.0.1:0"))(t)
	defer server.Close()
	buffer := make([]byte, 100)
	for range 100 {
		if _, err := server.WriteTo(buffer, server.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		must(t, server.SetReadDeadline(time.Now().Add(10*time.Second)))
		if _, _, err := server.ReadFrom(buffer); err != nil {
			t.Fatal(err)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), pid, 0))
}

// TestAbsent holds that a source that cannot count says why for each measurement, and that one that is not selected
// says nothing.
func TestAbsent(t *testing.T) {
	selection := procstats.SelectWhere(func(m procstats.Measurement) bool { return m.Source == procstats.SourceSkb })
	for name, s := range map[string]*network.Source{
		"reason": network.Absent(selection, "not here"), "no cgroup": network.Open(kernel.HostFS(), selection, "", true),
		"no such cgroup": network.Open(kernel.HostFS(), selection, filepath.Join(t.TempDir(), "none"), true),
	} {
		var sample procstats.Sample
		s.Collect(&sample)
		for _, id := range selection.IDs() {
			if r, found := sample.Task.Get(id); !found || r.Present() || r.Reason() == "" {
				t.Errorf("%s: %s is %v", name, id, r)
			}
		}
		if d := s.Describe(); d.Available || d.Reason == "" {
			t.Errorf("%s: described as %+v", name, d)
		}
	}
	var sample procstats.Sample
	none := network.Open(kernel.HostFS(), procstats.Selection{}, "", true)
	if none.Collect(&sample); len(sample.Task) > 0 || none.Describe().Reason == "" {
		t.Errorf("nothing was selected, and there is %v: %+v", sample.Task, none.Describe())
	}
}

// TestUncountedSockets holds which sockets are known not to be counted: those that were given, those of AF_PACKET,
// however short, and those that processes had when they ended.
func TestUncountedSockets(t *testing.T) {
	fs := host(t)
	s := network.Open(fs, procstats.DefaultSelection(), enter(t, fs), false)
	defer s.Close()
	list := filepath.Join(t.TempDir(), "net", "packet")
	table := func(inodes ...string) {
		must(t, os.WriteFile(list, []byte("sk RefCnt Type Proto Iface R Rmem User Inode\n"+strings.Join(inodes, "\n")+"\n"), 0o600))
	}
	must(t, os.Mkdir(filepath.Dir(list), 0o700))
	table("ffff8880 3 3 0003 2 1 0 0 11")
	var given []uintptr
	for _, domain := range []int{unix.AF_INET, unix.AF_UNIX, unix.AF_INET6, unix.AF_PACKET} {
		fd := testkit.Value(unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))(t)
		defer unix.Close(fd)
		given = append(given, uintptr(fd))
	}
	null := testkit.Value(os.Open(os.DevNull))(t)
	defer null.Close()
	var sample procstats.Sample
	s.WatchSockets(network.NewPacketSockets(fs), nil, func() (int64, string) { return 0, "not seen" })
	s.Collect(&sample)
	if got, _ := sample.Task.Get(procstats.SkbUncountedSockets); got.Present() || got.Reason() != "not seen" {
		t.Errorf("none are known, and others not seen: %v", got)
	}
	packet := network.NewPacketSockets(kernel.FS{Proc: filepath.Dir(filepath.Dir(list))})
	s.WatchSockets(packet, append(given, null.Fd(), ^uintptr(0)), func() (int64, string) { return 2, "" })
	// Few that were closed are remembered.
	for i, inodes := range [][]string{{"a 11"}, {"a 11", "b 12"}, {"b 12"}, {"a 11", "c 13", "d 14"}, numbered(5000, 2000), numbered(5000, 2001), {"a 11"}, numbered(5000, 2001)} {
		table(inodes...)
		sample = procstats.Sample{}
		s.Collect(&sample)
		want := []float64{5, 6, 6, 8, 2008, 2009, 2010, 4011}[i]
		if got, ok := sample.Task.Number(procstats.SkbUncountedSockets); !ok || got != want {
			t.Errorf("with %d, the first one %q: %v, %v, want %v", len(inodes), inodes[0], got, ok, want)
		}
	}
}

// TestContinue holds that a source goes on with what an earlier reader has counted.
func TestContinue(t *testing.T) {
	fs := host(t)
	dir := enter(t, fs)
	var last procstats.Sample
	last.SetNumber(procstats.SkbReceived, 1000)
	last.SetNumber(procstats.SkbStartTime, float64(time.Now().Unix()-3600)) // with a gap since then
	last.SetNumber(procstats.SkbLoopbackSentPackets, 7)
	s := network.Open(fs, procstats.DefaultSelection(), dir, true)
	defer s.Close()
	s.Continue(&last)
	var sample procstats.Sample
	s.Collect(&sample)
	for id, want := range map[procstats.ID]float64{procstats.SkbReceived: 1000, procstats.SkbLoopbackSentPackets: 7, procstats.SkbSent: 0} {
		if got, ok := sample.Task.Number(id); !ok || got != want {
			t.Errorf("%s = %v, %v, want %v", id, got, ok, want)
		}
	}
	since, ok := sample.Task.Number(procstats.SkbStartTime)
	if now := float64(time.Now().UnixMicro()) / 1e6; !ok || since > now || since < now-60 {
		t.Errorf("counted since %v, %v", since, ok)
	}
	for _, h := range procstats.NetworkHeadlines(&sample) {
		if value, _ := h.Reading.Number(); h.Reading.Present() && (value == 0 || h.Guarantee == procstats.Exact) {
			t.Errorf("%s is %v, %s", h.ID, h.Reading, h.Guarantee)
		}
	}
}

// The helpers of package testkit, by short names.
var (
	must    = testkit.Must
	noError = testkit.NoError
)

// numbered are lines with so many inodes from one on.
func numbered(from, count int) (lines []string) {
	for i := range count {
		lines = append(lines, fmt.Sprint("x ", from+i))
	}
	return lines
}
