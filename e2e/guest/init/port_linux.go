// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tachograph/tacho/e2e/guest/plan"
)

// openPort opens the virtio port to the host. Its driver asks the host for the names of the
// ports, so they come a moment after the module.
func openPort() (*os.File, error) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, file := range names {
			name, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if strings.TrimSpace(string(name)) == plan.Port {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(file)), os.O_WRONLY, 0)
			}
		}
	}
	return nil, fmt.Errorf("no virtio port is called %s", plan.Port)
}

// messages sends to the host. It may be used by several goroutines.
type messages struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

func (m *messages) send(message plan.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.encoder.Encode(message)
}

// Write sends output of the test binary. It implements io.Writer.
func (m *messages) Write(p []byte) (int, error) {
	if err := m.send(plan.Message{Output: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// sendOutputs sends those of the outputs that are there.
func sendOutputs(outputs []plan.Output, out *messages) error {
	for _, output := range outputs {
		files := []string{output.Path}
		if output.Folder {
			entries, err := os.ReadDir(output.Path)
			if err != nil {
				return err
			}
			files = nil
			for _, entry := range entries {
				files = append(files, filepath.Join(output.Path, entry.Name()))
			}
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) { // for instance a profile of a run that failed before
				continue
			}
			if err != nil {
				return err
			}
			if err := out.send(plan.Message{File: &plan.File{Path: file, Data: data}}); err != nil {
				return err
			}
		}
	}
	return nil
}
