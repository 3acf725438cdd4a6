// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/version"
)

// cannotStart is why a command could not be started, an error of the command and not of tacho: the run has a record of it.
type cannotStart struct {
	reason string
	exit   error // with the exit code of a shell
}

func (e *cannotStart) Error() string { return e.exit.Error() }

func (e *cannotStart) Unwrap() error { return e.exit }

// findCommand finds the command like the shell. A path that leads to no command is left to the executor, which says why.
func (s *session) findCommand() error {
	name := s.args[0]
	path, err := lookUp(name)
	switch {
	case err == nil:
		s.path = path
		return nil
	case !strings.Contains(name, "/"):
		return &cannotStart{err.Error(), err}
	}
	if s.path = name; !filepath.IsAbs(name) {
		dir, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("working directory: %w", err)
		}
		s.path = dir + "/" + name
	}
	return nil
}

// launchError turns an error of Launch into the exit code that a shell would return.
func launchError(name string, err error) error {
	message := status.Convert(err).Message()
	text := errors.New(message)
	if !strings.HasPrefix(message, name) {
		text = fmt.Errorf("%s: %s", name, message)
	}
	switch status.Code(err) {
	case codes.NotFound:
		return &cannotStart{message, cli.ExitWith(exitNotFound, text)}
	case codes.PermissionDenied:
		return &cannotStart{message, cli.ExitWith(exitNotExecutable, text)}
	}
	return errors.New(message)
}

// failed ends a run whose command was not started. If that is the command's fault its record says so; of every other
// error nothing is left.
func (s *session) failed(err error) error {
	if refusal, ok := errors.AsType[*cannotStart](err); ok && s.dir != "" {
		recordErr := s.recordFailure(refusal.reason)
		if recordErr == nil {
			return errors.Join(err, s.output.discard())
		}
		err = errors.Join(err, recordErr)
	}
	return errors.Join(err, s.output.discard(), s.removeDir())
}

// recordFailure writes the record of a run whose command could not be started.
func (s *session) recordFailure(reason string) error {
	o, now := s.options, time.Now()
	dir, _ := os.Getwd()     // what cannot be found out
	host, _ := os.Hostname() // is not in the record
	nothing := record.OOMCounters{Read: true}
	r := &record.Record{
		SchemaVersion: record.SchemaVersion, TachoVersion: version.String(), State: record.Exited, ID: s.id, Command: s.args,
		Dir: dir, User: o.user, Message: o.message, Labels: o.labels, StartedAt: now, EndedAt: now,
		Diagnosis: record.Diagnose(record.Evidence{Cause: record.StartFailed, Reason: reason, EndedAt: now, OOMBefore: nothing, OOMAfter: nothing}),
		Headline:  map[string]record.HeadlineValue{}, Measurements: map[string]any{}, Absent: map[string]string{},
		Selection: s.selection.Names(),
		Host:      record.Host{Name: host, OS: runtime.GOOS, CPUs: runtime.NumCPU()},
	}
	store, err := record.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(store.Put(r), store.Close())
}
