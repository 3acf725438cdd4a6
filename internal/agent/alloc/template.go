// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-envparse"

	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
)

// maxEnvFile bounds a template that is read into the environment, in bytes; the kernel takes less of all of it.
const maxEnvFile = 1 << 20

// render writes a task's templates. Those that are environment files add to env.
func (s *start) render(env map[string]string, owner *datadir.Owner) error {
	for _, t := range s.task.Templates {
		dir, path, pathErr := s.target(t, env)
		text, err := expand(t, env)
		mode, modeErr := strconv.ParseUint(t.Permissions, 8, 32)
		if err = errors.Join(pathErr, modeErr, err); err == nil {
			err = datadir.WriteFile(dir, path, text, fs.FileMode(mode), owner)
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
	files := make(map[string]bool)
	for _, t := range s.task.Templates {
		if err := ctx.Err(); err != nil {
			return err
		}
		dir, path, pathErr := s.target(t, env)
		files[filepath.Join(dir, path)] = pathErr == nil
		_, err := expand(t, env)
		for _, err := range []error{pathErr, err} {
			if err != nil {
				errs = append(errs, templateFault(t, err))
			}
		}
	}
	for _, t := range s.task.Templates {
		dir, path, err := s.target(t, env)
		for above := filepath.Dir(path); err == nil && above != "."; above = filepath.Dir(above) {
			if files[filepath.Join(dir, above)] {
				errs = append(errs, templateFault(t, fmt.Errorf("another template makes a file of %s", above)))
			}
		}
	}
	return job.JoinMistakes(errs...)
}

// maxName is the longest name of a file in bytes, readdir(3).
const maxName = 255

// target returns the file of a template, as a path within the task's directory or the one that all tasks see.
func (s *start) target(t *job.Template, env map[string]string) (dir, path string, err error) {
	full := node.Interpolate(t.Destination, env, s.node.Names())
	task, shared := s.dir.Task(s.task.Name), s.dir.Shared()
	if !filepath.IsAbs(full) || strings.HasPrefix(full, "/local/") || strings.HasPrefix(full, "/secrets/") {
		full = task + "/" + full
	}
	for dir, folders := range map[string][]string{task: {"local", "secrets", "tmp"}, shared: {"data", "logs", "tmp"}} {
		path, err := filepath.Rel(dir, full)
		if err != nil || !filepath.IsLocal(path) {
			continue
		}
		names := strings.Split(path, "/")
		switch {
		case path == ".", strings.HasSuffix(full, "/"), len(names) == 1 && slices.Contains(folders, path):
			return "", "", fmt.Errorf("destination %q is a directory; append the name of a file", t.Destination)
		case dir == shared && names[0] == "logs":
			return "", "", fmt.Errorf("destination %q is reserved for the log files of tasks", t.Destination)
		case strings.Contains(path, "\x00"), slices.ContainsFunc(names, func(s string) bool { return len(s) > maxName }):
			return "", "", fmt.Errorf("destination %q cannot be the name of a file", t.Destination)
		}
		return dir, path, nil
	}
	const outside = "destination %q is not within the task's directory or ${NOMAD_ALLOC_DIR}"
	return "", "", fmt.Errorf(outside, t.Destination)
}

// expand returns the text of a template. An environment file adds to env.
func expand(t *job.Template, env map[string]string) ([]byte, error) {
	text, err := t.Expand(env)
	if err == nil && t.Env {
		err = readEnv(text, env)
	}
	return text, err
}

func templateFault(t *job.Template, err error) error {
	return fmt.Errorf("%s:%d: template %s: %w", t.Range.Filename, t.Range.Start.Line, t.Destination, err)
}

// readEnv adds the variables of NAME=value lines, as Nomad reads them.
func readEnv(text []byte, env map[string]string) error {
	if len(text) > maxEnvFile {
		return fmt.Errorf("%d bytes; a file of variables can have %d", len(text), maxEnvFile)
	}
	variables, err := envparse.Parse(bytes.NewReader(text))
	if refused, ok := errors.AsType[*envparse.ParseError](err); ok {
		return fmt.Errorf("line %d: %w", refused.Line, refused.Err)
	}
	maps.Copy(env, variables)
	return err
}
