// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// EpollSet waits for many descriptors in one goroutine, with epoll(7). The runtime's own poller needs a goroutine for
// each of them, which for hundreds of tasks at rest is most of what their owner holds. Its methods may be called
// concurrently.
type EpollSet struct {
	waiting sync.WaitGroup

	mu     sync.Mutex // guards following, and is held while a descriptor's function runs
	file   *os.File   // the epoll descriptor; nil before the first Add
	ready  map[int32]func() (again bool)
	closed bool
}

// NewEpollSet returns an empty set, which has no goroutine yet.
func NewEpollSet() *EpollSet { return &EpollSet{ready: make(map[int32]func() bool)} }

// Add calls ready whenever a descriptor can be read or has come to its end, until that returns false or Remove is
// called. It must not block, nor call the set, and may be called without a reason.
func (s *EpollSet) Add(fd int, ready func() (again bool)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("watch descriptor: %w", os.ErrClosed)
	}
	if err := s.open(); err != nil {
		return fmt.Errorf("watch descriptor: %w", err)
	}
	if err := s.control(unix.EPOLL_CTL_ADD, fd); err != nil {
		return fmt.Errorf("watch descriptor: epoll_ctl: %w", err)
	}
	s.ready[int32(fd)] = ready
	return nil
}

// Remove waits until a descriptor's function does not run, and is never called again. It has to be called before the
// descriptor is closed; the descriptor need not be in the set.
func (s *EpollSet) Remove(fd int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(int32(fd))
}

func (s *EpollSet) remove(fd int32) {
	if _, found := s.ready[fd]; found {
		delete(s.ready, fd)
		_ = s.control(unix.EPOLL_CTL_DEL, int(fd)) // of a descriptor that is in the set
	}
}

// Close ends the goroutine. Nothing is called after it.
func (s *EpollSet) Close() error {
	s.mu.Lock()
	file := s.file
	s.closed, s.file = true, nil
	clear(s.ready)
	s.mu.Unlock()
	if file == nil {
		return nil
	}
	err := file.Close()
	s.waiting.Wait()
	return err
}

// open makes the epoll descriptor, which the runtime's poller waits for.
func (s *EpollSet) open() error {
	if s.file != nil {
		return nil
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	file := os.NewFile(uintptr(fd), "epoll")
	raw, err := file.SyscallConn()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	s.file = file
	s.waiting.Go(func() {
		_ = raw.Read(func(fd uintptr) (closed bool) { return s.dispatch(int(fd)) }) // ends when the file is closed
	})
	return nil
}

func (s *EpollSet) control(operation, fd int) (err error) {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := raw.Control(func(epoll uintptr) {
		err = unix.EpollCtl(int(epoll), operation, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	})
	return errors.Join(controlErr, err)
}

// dispatch calls the functions of what is ready until nothing is. It reports whether the set is of no use any more.
func (s *EpollSet) dispatch(epoll int) (broken bool) {
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(epoll, events[:], 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n == 0 || err != nil {
			return err != nil
		}
		s.mu.Lock()
		if s.closed { // what is ready stays so, and no caller wants it
			s.mu.Unlock()
			return true
		}
		for _, event := range events[:n] {
			// It may have been removed since, and another descriptor may have its number.
			if ready := s.ready[event.Fd]; ready != nil && !ready() {
				s.remove(event.Fd)
			}
		}
		s.mu.Unlock()
	}
}
