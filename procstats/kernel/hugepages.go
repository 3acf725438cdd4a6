// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// HugePools are the files of the machine's pools of huge pages, one pool for each size, kept open:
// /sys/kernel/mm/hugepages/hugepages-*kB/nr_hugepages and free_hugepages.
type HugePools struct {
	pools []hugePool
	buf   []byte
}

type hugePool struct{ total, free File }

// OpenHugePools opens the pools. A kernel without huge pages (CONFIG_HUGETLB_PAGE) has none, which is no error.
func OpenHugePools(fs FS) (*HugePools, error) {
	dir := filepath.Join(fs.Sys, "kernel/mm/hugepages")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(dir)); err == nil {
			return &HugePools{}, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list pools of huge pages: %w", err)
	}
	p := &HugePools{}
	for _, entry := range entries {
		var pool hugePool
		if pool.total, err = Open(filepath.Join(dir, entry.Name(), "nr_hugepages")); err == nil {
			pool.free, err = Open(filepath.Join(dir, entry.Name(), "free_hugepages"))
		}
		p.pools = append(p.pools, pool)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open pool of huge pages: %w", err), p.Close())
		}
	}
	return p, nil
}

// InUse reports whether any process of the machine holds a huge page of a pool. It costs one system call for each pool
// that is empty, as all are on most machines.
func (p *HugePools) InUse() (bool, error) {
	for i := range p.pools {
		total, err := p.count(&p.pools[i].total)
		if err == nil && total == 0 {
			continue
		}
		free := total
		if err == nil {
			free, err = p.count(&p.pools[i].free)
		}
		if err != nil || free < total {
			return err == nil, err
		}
	}
	return false, nil
}

func (p *HugePools) count(f *File) (pages float64, err error) {
	field := [...]Field{{}}
	if p.buf, err = f.ReadRecord(p.buf); err == nil {
		if ParseSingleValue(p.buf, field[:]); !allRead(field[:]) {
			err = ErrFormat
		}
	}
	if err != nil {
		return 0, fmt.Errorf("read pool of huge pages: %w", err)
	}
	return field[0].Value, nil
}

// Close closes the files.
func (p *HugePools) Close() error {
	var errs []error
	for i := range p.pools {
		errs = append(errs, p.pools[i].total.Close(), p.pools[i].free.Close())
	}
	return errors.Join(errs...)
}

// GivesHugePages reports whether one page fault can give any process several pages of memory, unasked:
// /sys/kernel/mm/transparent_hugepage/enabled, and since Linux 6.8 that of each size. It is true if that is not known.
func GivesHugePages(fs FS) bool {
	dir := filepath.Join(fs.Sys, "kernel/mm/transparent_hugepage")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false // CONFIG_TRANSPARENT_HUGEPAGE is off
	}
	if err != nil {
		return true
	}
	for _, entry := range entries {
		file := filepath.Join(dir, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), "hugepages-"):
			file = filepath.Join(file, "enabled")
		case entry.Name() != "enabled":
			continue
		}
		mode, err := ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // some sizes are for shared memory only
		}
		if err != nil || bytes.Contains(mode, []byte("[always]")) {
			return true
		}
	}
	return false
}
