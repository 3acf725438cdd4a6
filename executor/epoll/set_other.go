// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package epoll

// Set is empty: no executor runs on this system.
type Set struct{}

// New returns an empty set.
func New() *Set { return &Set{} }

// Close does nothing.
func (*Set) Close() error { return nil }
