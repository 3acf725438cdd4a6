// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"errors"
	"strconv"
	"time"

	"github.com/tachograph/tacho/internal/command/cli"
)

// momentFlag is a flag for a time, as the agent parses it; empty for none. It checks what the agent would reject, and turns days, which
// the agent does not know, into hours.
type momentFlag string

// String implements pflag.Value.
func (m *momentFlag) String() string { return string(*m) }

// Set implements pflag.Value.
func (m *momentFlag) Set(text string) error {
	if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
		*m = momentFlag(text)
		return nil
	}
	const latest = 1 << 33 // seconds: the agent's bound
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 && seconds < latest {
		*m = momentFlag(text)
		return nil
	}
	if before, err := cli.ParseDuration(text); err == nil {
		*m = momentFlag(before.String())
		return nil
	}
	return errors.New("must be a time: RFC 3339, seconds since 1970, or a duration before now such as 5m")
}

// Type implements pflag.Value.
func (m *momentFlag) Type() string { return "TIME" }

// stepFlag is a flag for a duration, as the agent parses it; empty for none.
type stepFlag string

// String implements pflag.Value.
func (s *stepFlag) String() string { return string(*s) }

// Set implements pflag.Value.
func (s *stepFlag) Set(text string) error {
	step, err := cli.ParseDuration(text)
	if err == nil {
		*s = stepFlag(step.String())
	}
	return err
}

// Type implements pflag.Value.
func (s *stepFlag) Type() string { return "duration" }
