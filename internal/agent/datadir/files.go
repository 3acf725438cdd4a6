// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/tachograph/tacho/procstats/kernel"
)

// errHidden is returned for files that no client may read.
var errHidden = fmt.Errorf("not shown: secrets of tasks and files of the agent: %w", fs.ErrPermission)

// within is a path from the allocation's directory, as os.Root takes it.
func within(name string) (string, error) {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	first, rest, _ := strings.Cut(name, "/")
	second, _, _ := strings.Cut(rest, "/")
	if strings.HasPrefix(first, ".") || second == "secrets" {
		return "", errHidden
	}
	if name == "" {
		name = "."
	}
	return name, nil
}

// Info is what a file or directory is. OtherMount says that it lies on another mount than the allocation's directory: a
// task has mounted it, and it is not the task's own.
type Info struct {
	fs.FileInfo
	OtherMount bool
}

// info returns what an entry of an open directory is, or with an empty name the open file itself.
func (a Allocation) info(f *os.File, name string, info fs.FileInfo) Info {
	own, known := kernel.MountID(nil, string(a))
	mount, ok := kernel.MountID(f, name)
	return Info{info, known && ok && mount != own}
}

// List returns what is in a directory, by a path from the allocation's directory.
func (a Allocation) List(name string) (infos []Info, err error) {
	f, err := a.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	for _, entry := range entries {
		if _, hidden := within(path.Join(name, entry.Name())); hidden != nil {
			continue
		}
		if info, err := entry.Info(); err == nil { // else it is gone meanwhile
			infos = append(infos, a.info(f, entry.Name(), info))
		}
	}
	return infos, nil
}

// Stat returns what a file or directory is.
func (a Allocation) Stat(name string) (info Info, err error) {
	f, err := a.open(name)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	stat, err := f.Stat()
	if err != nil {
		return info, fmt.Errorf("read file: %w", err)
	}
	return a.info(f, "", stat), nil
}

// Open opens a regular file.
func (a Allocation) Open(name string) (*os.File, error) {
	f, err := a.open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file: %w", name, fs.ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("read file: %w", errors.Join(err, f.Close()))
	}
	return f, nil
}

// open opens a file of any type, without waiting for the other end of a pipe.
func (a Allocation) open(name string) (*os.File, error) {
	name, err := within(name)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(string(a))
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err = errors.Join(err, root.Close()); err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	return f, nil
}
