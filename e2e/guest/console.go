// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"strings"
	"sync"
)

// console collects what the firmware, the kernel, init and the emulator say. It may be written to
// by several goroutines.
type console struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

// String returns the text with plain line ends and without the firmware's screen controls.
func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	controls := strings.NewReplacer("\r\n", "\n", "\x1bc", "", "\x1b[?7l", "", "\x1b[2J", "", "\x1b[0m", "")
	return controls.Replace(c.text.String())
}
