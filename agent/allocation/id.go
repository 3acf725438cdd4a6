// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package allocation

import (
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var (
	// ErrNotFound is wrapped for an allocation, a task or a job that there is not.
	ErrNotFound = errors.New("not found")
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

// IsID reports whether a text has the form of an id.
func IsID(text string) bool { return idForm.MatchString(text) }

var idForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
