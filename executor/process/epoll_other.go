// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package process

// EpollSet is empty: no executor runs on this system.
type EpollSet struct{}

// NewEpollSet returns an empty set.
func NewEpollSet() *EpollSet { return &EpollSet{} }

// Close does nothing.
func (*EpollSet) Close() error { return nil }
