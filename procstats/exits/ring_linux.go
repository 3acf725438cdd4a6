// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Each record in the kernel's ring buffer begins with its length; Documentation/bpf/ringbuf.rst.
const (
	ringHeader  = 8
	ringBusy    = 1 << 31 // the kernel is still writing it
	ringDiscard = 1 << 30
)

// ring reads a ring buffer of BPF programs: the kernel writes and this process reads what is mapped into both. The
// look is taken by the caller of Read, without a system call, and by wait. A goroutine that blocked in epoll_wait
// would hold the only P of an executor until the runtime's monitor takes it away, milliseconds later.
type ring struct {
	file   *os.File // the map, for the runtime's poller
	readAt []byte   // a page: the position up to which this process has read
	// written is a page, the position up to which the kernel has written; then the data, mapped twice, so that no record
	// is cut.
	written  []byte
	pageSize int

	mu sync.Mutex // one reader at a time
}

// openRing maps the ring buffer with a descriptor, which stays the caller's.
func openRing(fd, pageSize int) (*ring, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open ring buffer: %w", err)
	}
	if err := unix.SetNonblock(own, true); err != nil { // it has no read(2): this is what the runtime polls
		return nil, errors.Join(fmt.Errorf("open ring buffer: %w", err), unix.Close(own))
	}
	r := &ring{pageSize: pageSize, file: os.NewFile(uintptr(own), "ring buffer")}
	if r.readAt, err = unix.Mmap(own, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		r.written, err = unix.Mmap(own, int64(pageSize), pageSize+2*ringSize, unix.PROT_READ, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map ring buffer: %w", err), r.stop(), r.close())
	}
	return r, nil
}

// position is where one side has come to, in bytes since the buffer was created.
func position(page []byte) *uint64 { return (*uint64)(unsafe.Pointer(unsafe.SliceData(page))) }

// read gives what the kernel has written to add, which must not keep it.
func (r *ring) read(add func(raw []byte)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written == nil {
		return // it was closed
	}
	data := r.written[r.pageSize:]
	at, end := atomic.LoadUint64(position(r.readAt)), atomic.LoadUint64(position(r.written))
	for at < end {
		record := data[at%ringSize:]
		header := atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(record))))
		if header&ringBusy != 0 {
			return
		}
		size := uint64(header &^ (ringBusy | ringDiscard))
		if header&ringDiscard == 0 {
			add(record[ringHeader : ringHeader+size])
		}
		at += (ringHeader + size + 7) / 8 * 8
		atomic.StoreUint64(position(r.readAt), at) // the kernel may write there now
	}
}

// wait reads whenever the kernel wakes it, until stop.
func (r *ring) wait(add func(raw []byte)) {
	conn, err := r.file.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Read(func(uintptr) (done bool) { // its only error is that the file was closed
		r.read(add)
		return false
	})
}

// stop ends wait.
func (r *ring) stop() error { return r.file.Close() } //nolint:wrapcheck // it names the operation and the file

// close unmaps the buffer: nothing is read from here on.
func (r *ring) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, memory := range [][]byte{r.readAt, r.written} {
		if memory != nil {
			errs = append(errs, unix.Munmap(memory))
		}
	}
	r.readAt, r.written = nil, nil
	return errors.Join(errs...)
}
