// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package allocation

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
)

var (
	// ErrRecovering is wrapped until the tasks of an earlier run of the agent are recovered.
	ErrRecovering = errors.New("the agent is recovering tasks")
	// ErrNotFound is wrapped for an allocation, a task or a job that there is not.
	ErrNotFound = errors.New("not found")
	// ErrChanged says that a job is not what a change of it was derived from.
	ErrChanged = errors.New("the job has changed meanwhile")
	// ErrWatched is wrapped for what would change an allocation that is only watched.
	ErrWatched = errors.New("it is only watched: what started it must do that")
	// ErrAmbiguous is wrapped where a prefix stands for several allocations.
	ErrAmbiguous = errors.New("ambiguous prefix")
)

// NewID returns a random UUID, RFC 9562 version 4.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Find returns the one id that begins with prefix. Errors wrap ErrNotFound or ErrAmbiguous, and say which there are.
func Find(ids []string, prefix string) (string, error) {
	var found []string
	for _, id := range ids {
		if id == prefix {
			return id, nil
		}
		if prefix != "" && strings.HasPrefix(id, prefix) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("allocation %q: %w", prefix, ErrNotFound)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("allocation %q stands for %s: %w", prefix, strings.Join(found, ", "), ErrAmbiguous)
}

// ShortID is the part of an id that people are shown.
func ShortID(id string) string { return id[:min(8, len(id))] }

// NoTask returns the error about a task that an allocation does not have, with those that it has. It is an ErrNotFound.
func NoTask(id, name string, tasks []string) error {
	slices.Sort(tasks)
	return noTask(fmt.Sprintf("allocation %s has no task %q, only %s", ShortID(id), name, strings.Join(tasks, ", ")))
}

type noTask string

func (e noTask) Error() string      { return string(e) }
func (noTask) Is(target error) bool { return target == ErrNotFound }

// IsID reports whether a text has the form of an id.
func IsID(text string) bool {
	const form = "........-....-....-....-............"
	digits := strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789abcdef", r) {
			return '.'
		}
		return r
	}, text)
	return digits == form && !strings.Contains(text, ".")
}
