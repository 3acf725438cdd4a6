// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/tachograph/tacho/e2e/guest/plan"
)

var errNoResult = errors.New("the guest ended without a result")

// relay carries what the test binaries do over to the host.
type relay struct {
	stdout  []io.Writer // one for each test binary, in their order
	stderr  io.Writer
	outputs []string // files that the guest may send
	started func()   // called when a test binary has been started
}

// run carries messages out up to the result of the last test binary, and returns the status of each that ended.
func (r relay) run(messages io.Reader) (statuses []int, err error) {
	for decoder := json.NewDecoder(messages); ; {
		var m plan.Message
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return statuses, errNoResult
		}
		if err != nil {
			return statuses, fmt.Errorf("message from the guest: %w", err)
		}
		switch {
		case m.Started:
			r.started()
		case m.File != nil:
			err = r.save(*m.File)
		case m.Result != nil:
			var status int
			if status, err = r.end(*m.Result); err == nil {
				statuses = append(statuses, status)
			}
			if len(statuses) == len(r.stdout) {
				return statuses, nil
			}
		default:
			_, err = r.stdout[len(statuses)].Write(m.Output)
		}
		if err != nil {
			return statuses, err
		}
	}
}

// save writes a file of the test binary's, if it is one that was asked for.
func (r relay) save(f plan.File) error {
	if !slices.Contains(r.outputs, f.Path) {
		return fmt.Errorf("the guest sent %s: not one of its outputs", f.Path)
	}
	return os.WriteFile(f.Path, f.Data, 0o644)
}

func (r relay) end(result plan.Result) (int, error) {
	if result.Error != "" {
		return 0, errors.New(result.Error)
	}
	if result.Signal != "" {
		fmt.Fprintf(r.stderr, "signal: %s\n", result.Signal)
	}
	return result.Exit, nil
}
