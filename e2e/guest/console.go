// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"io"
	"strings"
	"sync"
)

// consoleLimit is how much of a console is kept: a crash with its backtraces and what came before.
const consoleLimit = 64 << 10

// console keeps the end of what the kernel, init and the emulator say.
type console struct {
	tee io.Writer // gets everything at once; nil for nobody

	mu   sync.Mutex
	text []byte
}

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tee != nil {
		if _, err := c.tee.Write(p); err != nil {
			return 0, err
		}
	}
	c.text = append(c.text, p...)
	if extra := len(c.text) - consoleLimit; extra > 0 {
		c.text = append(c.text[:0], c.text[extra:]...)
	}
	return len(p), nil
}

// String returns what was kept, with plain line ends and without the firmware's screen controls.
func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := strings.ReplaceAll(string(c.text), "\r\n", "\n")
	for _, control := range []string{"\x1bc", "\x1b[?7l", "\x1b[2J", "\x1b[0m"} {
		text = strings.ReplaceAll(text, control, "")
	}
	return text
}
