// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package removal removes what a task may have written. Tasks are hostile: they mount other directories below their
// own, plant links, nest ten thousand levels, make files immutable, and may go on writing.
package removal

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Remains are the entries of a directory that could not be removed.
type Remains struct {
	// Path is the directory.
	Path string
	// Named are some of the entries, and More is how many others there are.
	Named []Remain
	More  int
}

// Remain is one entry that could not be removed.
type Remain struct {
	// Path is relative to the directory. The task has chosen it: it may contain any character but NUL.
	Path string
	// Err says why.
	Err error
}

// mostNamed bounds what one removal remembers.
const mostNamed = 16

// Reasons for what remains, beside those of the system calls.
var (
	ErrMounted   = errors.New("another directory or file is mounted on it; unmount it with umount(8)")
	ErrImmutable = errors.New("the file system does not permit it; see lsattr(1) for immutable and append-only files")
	ErrWritten   = errors.New("it is still being written to")
)

func (r *Remains) add(path string, err error) {
	if len(r.Named) == mostNamed {
		r.More++
		return
	}
	r.Named = append(r.Named, Remain{cmp.Or(path, "."), err})
}

// Count returns how many entries remain.
func (r *Remains) Count() int { return len(r.Named) + r.More }

// Unwrap returns the reasons.
func (r *Remains) Unwrap() (list []error) {
	for _, e := range r.Named {
		list = append(list, e.Err)
	}
	return list
}

// Error names the directory and the first entries.
func (r *Remains) Error() string {
	text := make([]string, 0, len(r.Named)+1)
	for _, e := range r.Named {
		text = append(text, fmt.Sprintf("%s: %s", strings.Trim(strconv.Quote(e.Path), `"`), e.Err))
	}
	if r.More > 0 {
		text = append(text, fmt.Sprintf("and %d more", r.More))
	}
	return fmt.Sprintf("%s is not removed: %s", r.Path, strings.Join(text, "; "))
}

// Reason says the same without a path, for readers who may see none.
func (r *Remains) Reason() string {
	if r.Count() == 1 {
		return "1 entry: " + r.Named[0].Err.Error()
	}
	return fmt.Sprintf("%d entries, the first: %s", r.Count(), r.Named[0].Err)
}
