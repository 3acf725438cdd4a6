// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"errors"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

// pipe is a pipe whose reading end does not block.
func pipe(t *testing.T) (read, write int) {
	t.Helper()
	var ends [2]int
	must(t, unix.Pipe2(ends[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
	t.Cleanup(func() {
		_ = unix.Close(ends[0])
		_ = unix.Close(ends[1]) // closed twice by tests of the end
	})
	return ends[0], ends[1]
}

func send(t *testing.T, fd int) {
	t.Helper()
	if _, err := unix.Write(fd, []byte{1}); err != nil {
		t.Fatal(err)
	}
}

// drain takes what is in a pipe, and reports whether more can come.
func drain(fd int) (more bool) {
	var some [8]byte
	n, err := unix.Read(fd, some[:])
	return n > 0 || errors.Is(err, unix.EAGAIN)
}

func receive(t *testing.T, c <-chan int) int {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("the descriptor's function was not called")
		return 0
	}
}

func TestEpollSet(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := NewEpollSet()
	called := make(chan int, 8)
	writers := map[int]int{}
	var readers []int
	for range 3 {
		read, write := pipe(t)
		writers[read], readers = write, append(readers, read)
		testkit.Must(t, s.Add(read, func() bool {
			more := drain(read)
			called <- read
			return more
		}))
	}
	for range 2 {
		for _, read := range readers {
			send(t, writers[read])
			if got := receive(t, called); got != read {
				t.Errorf("the function of %d was called, want that of %d", got, read)
			}
		}
	}
	must(t, unix.Close(writers[readers[0]]))
	if got := receive(t, called); got != readers[0] {
		t.Errorf("the function of %d was called at the end of %d", got, readers[0])
	}
	s.Remove(readers[1])
	s.Remove(readers[1])
	send(t, writers[readers[1]])
	send(t, writers[readers[2]])
	if got := receive(t, called); got != readers[2] {
		t.Errorf("the function of %d was called, which was removed", got)
	}
	must(t, s.Close())
	send(t, writers[readers[2]])
	select {
	case got := <-called:
		t.Errorf("the function of %d was called after the end or Close", got)
	case <-time.After(20 * time.Millisecond):
	}
}

// Remove waits for a call in progress: what it uses may be closed then.
func TestEpollSetRemoveWaits(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := NewEpollSet()
	defer s.Close()
	read, write := pipe(t)
	began, end, removed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	testkit.Must(t, s.Add(read, func() bool {
		close(began)
		<-end
		return false
	}))
	send(t, write)
	<-began
	go func() {
		s.Remove(read)
		close(removed)
	}()
	select {
	case <-removed:
		t.Error("Remove returned while the function ran")
	case <-time.After(20 * time.Millisecond):
	}
	close(end)
	<-removed
}

func TestEpollSetWithoutUse(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := NewEpollSet()
	s.Remove(0)
	testkit.NoError(t, s.Close())
	if err := s.Add(0, func() bool { return false }); !errors.Is(err, os.ErrClosed) {
		t.Errorf("add after Close: %v, want %v", err, os.ErrClosed)
	}
}

// A descriptor that cannot be waited for, as of a plain file, is refused.
func TestEpollSetAddRefuses(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := NewEpollSet()
	defer s.Close()
	file := testkit.Value(os.CreateTemp(t.TempDir(), ""))(t)
	defer file.Close()
	if err := s.Add(int(file.Fd()), func() bool { return false }); !errors.Is(err, unix.EPERM) {
		t.Errorf("add a plain file: %v, want %v", err, unix.EPERM)
	}
}

// TestEpollSetClosesWhileReady closes a set of which a descriptor is ready, and stays so.
func TestEpollSetClosesWhileReady(t *testing.T) {
	t.Parallel()
	for range 200 {
		set := NewEpollSet()
		r, w, err := os.Pipe()
		testkit.Must(t, err)
		testkit.Must(t, set.Add(int(r.Fd()), func() bool { return true }))
		testkit.Must(t, w.Close())
		testkit.Must(t, set.Close())
		testkit.Must(t, r.Close())
	}
}
