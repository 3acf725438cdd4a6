// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Check evaluates a job file with its templates in a trial, because neither an expression nor a template can be stopped
// from outside. It returns an error only for a file that costs too much: Read reports all other mistakes.
func Check(ctx context.Context, source Source) error { return check(ctx, source, 5*time.Second) }

func check(ctx context.Context, source Source, limit time.Duration) error {
	if len(source.Text) > MaxSource {
		return nil // Read rejects it
	}
	input, err := json.Marshal(source)
	if err != nil {
		return fmt.Errorf("check job file: %w", err)
	}
	err = runTrial(ctx, input, limit)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTrialFailed), errors.Is(err, errTrialTime):
		return Mistakes(tooLarge(startOf(source.Filename), fmt.Sprintf("its evaluation takes more than %s or %d MiB; "+
			"let the task compute large values, or write fewer and shorter loops", limit, maxTrialMemory>>20)))
	}
	return fmt.Errorf("check job file: %w", err)
}

// evaluate evaluates a source and its templates. Mistakes are not an error.
func evaluate(stdin io.Reader) error {
	var source Source
	if err := json.NewDecoder(stdin).Decode(&source); err != nil {
		return err
	}
	file, err := Read(source)
	if err != nil {
		return nil //nolint:nilerr // the agent reports it
	}
	for _, g := range file.Groups {
		for _, t := range g.Tasks {
			for _, x := range t.Templates {
				_, _ = x.Expand(t.Env) // the agent reports the error
			}
		}
	}
	return nil
}
