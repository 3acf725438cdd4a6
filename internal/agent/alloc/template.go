// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
)

// maxEnvFile bounds a template that is read into the environment, in bytes; the kernel takes less of all of it.
const maxEnvFile = 1 << 20

// render writes a task's templates. Those that are environment files add to env.
func (s *start) render(env map[string]string, owner *datadir.Owner) error {
	for _, t := range s.task.Templates {
		text, err := expand(t, env)
		if err != nil {
			return err
		}
		mode, modeErr := strconv.ParseUint(t.Permissions, 8, 32)
		path, err := t.Path()
		if err = errors.Join(modeErr, err); err == nil {
			err = s.dir.WriteFile(s.task.Name, path, text, fs.FileMode(mode), owner)
		}
		if err != nil {
			return templateFault(t, err)
		}
	}
	return nil
}

// checkTemplates expands a task's templates and writes nothing.
func (s *start) checkTemplates(ctx context.Context, env map[string]string) error {
	var errs []error
	for _, t := range s.task.Templates {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := expand(t, env)
		errs = append(errs, err)
	}
	return job.JoinMistakes(errs...)
}

// expand returns the text of a template. An environment file adds to env.
func expand(t *job.Template, env map[string]string) ([]byte, error) {
	text, err := t.Expand(env)
	if err == nil && t.Env {
		err = readEnv(text, env)
	}
	if err != nil {
		return nil, templateFault(t, err)
	}
	return text, nil
}

func templateFault(t *job.Template, err error) error {
	return fmt.Errorf("%s:%d: template %s: %w", t.Range.Filename, t.Range.Start.Line, t.Destination, err)
}

// readEnv reads NAME=value lines; quotes around a value are taken off.
func readEnv(text []byte, env map[string]string) error {
	if len(text) > maxEnvFile {
		return fmt.Errorf("%d bytes; a file of variables can have %d", len(text), maxEnvFile)
	}
	n := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !ok || strings.TrimSpace(name) == "" {
			return fmt.Errorf("line %d: must be NAME=value", n)
		}
		value = strings.TrimSpace(value)
		if len(value) >= 2 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		env[strings.TrimSpace(name)] = value
	}
	return nil
}
