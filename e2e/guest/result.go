// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/tachograph/tacho/e2e/guest/plan"
)

var errNoResult = errors.New("the guest ended without a result")

// read gives the guest's messages to receive, up to and with the result.
func read(messages io.Reader, receive func(plan.Message) error) error {
	decoder := json.NewDecoder(messages)
	for {
		var message plan.Message
		err := decoder.Decode(&message)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errNoResult
		}
		if err != nil {
			return fmt.Errorf("message from the guest: %w", err)
		}
		if err := receive(message); err != nil {
			return err
		}
		if message.Result != nil {
			return nil
		}
	}
}

// relay carries what the test binary does over to the host.
type relay struct {
	stdout  io.Writer
	stderr  io.Writer
	outputs []plan.Output
	result  plan.Result
}

func (r *relay) receive(message plan.Message) error {
	switch {
	case message.Output != nil:
		_, err := r.stdout.Write(message.Output)
		return err
	case message.File != nil:
		return r.save(*message.File)
	case message.Result != nil:
		r.result = *message.Result
		if r.result.Signal != "" {
			_, err := fmt.Fprintf(r.stderr, "signal: %s\n", r.result.Signal)
			return err
		}
		if r.result.Error != "" {
			return errors.New(r.result.Error)
		}
	}
	return nil
}

// save writes a file that the test binary left, if it is one that was asked for.
func (r *relay) save(f plan.File) error {
	if !slices.ContainsFunc(r.outputs, func(out plan.Output) bool {
		return f.Path == out.Path || out.Folder && filepath.Dir(f.Path) == filepath.Clean(out.Path)
	}) {
		return fmt.Errorf("the guest sent %s: not one of its outputs", f.Path)
	}
	return os.WriteFile(f.Path, f.Data, 0o644)
}
