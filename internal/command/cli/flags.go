// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tachograph/tacho/procstats"
)

// FlagError says which flag is invalid, why, and what is right.
func FlagError(cmd *cobra.Command, err error) error {
	if unknown := unknownBelow(cmd, cmd.Flags().Args()); unknown != nil {
		return unknown // the flags are those of a command that does not exist
	}
	text := err.Error()
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		text = fmt.Sprintf("--%s %s: %s", invalid.GetFlag().Name, invalid.GetValue(), whyInvalid(invalid))
		if single := invalid.GetFlag().Shorthand + invalid.GetValue(); cmd.Flags().Lookup(single) != nil {
			text = fmt.Sprintf("-%s: did you mean --%s?", single, single) // -interval is -i with the value "nterval"
		}
	} else if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		text = unknownFlag(cmd, unknown)
	}
	return Usagef("%s (see %s --help)", text, cmd.CommandPath())
}

// whyInvalid returns why a flag does not take a value. strconv names its functions instead.
func whyInvalid(err *pflag.InvalidValueError) string {
	if _, ok := errors.AsType[*strconv.NumError](err); !ok {
		return err.Unwrap().Error()
	}
	switch kind := err.GetFlag().Value.Type(); {
	case errors.Is(err, strconv.ErrRange):
		return "out of range"
	case kind == "bool":
		return "must be true or false"
	case strings.HasPrefix(kind, "float"):
		return "must be a number"
	}
	return "must be a whole number"
}

func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) string {
	name, dashes := err.GetSpecifiedName(), "--"
	if letters := err.GetSpecifiedShortnames(); letters != "" {
		name, dashes = letters, "-"
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
	text := "unknown flag " + dashes + name
	if near := Near("--"+name, names); len(near) > 0 {
		text += "; did you mean " + OrList(near) + "?"
	}
	return text
}

// Near returns the names that may have been meant by word, at most three: those that are a few typing errors away, or
// else those that begin with it.
func Near(word string, names []string) []string {
	const most = 3
	var near, longer []string
	for _, name := range names {
		if procstats.EditDistance(word, name) <= 1+len(word)/5 {
			near = append(near, name)
		} else if strings.HasPrefix(name, word) {
			longer = append(longer, name)
		}
	}
	if len(near) == 0 {
		near = longer
	}
	return near[:min(most, len(near))]
}

// value is a flag that functions read and write.
type value struct {
	kind string
	text func() string
	set  func(text string) error
}

// NewValue returns the value of a flag. kind is shown by the help, which omits a default whose text is empty or "0".
func NewValue(kind string, text func() string, set func(text string) error) pflag.Value {
	return &value{kind, text, set}
}

// String implements pflag.Value.
func (v *value) String() string {
	if v.text == nil { // the zero value, which pflag compares with
		return ""
	}
	return v.text()
}

// Set implements pflag.Value.
func (v *value) Set(text string) error { return v.set(text) }

// Type implements pflag.Value.
func (v *value) Type() string { return v.kind }

// Number returns the value of a flag that sets n, which has the default, to a whole number from least to most. The help
// does not show a default outside of these bounds, which stands for a flag that was not given.
func Number(n *int, least, most int) pflag.Value {
	text := func() string {
		if *n < least || *n > most {
			return "0"
		}
		return strconv.Itoa(*n)
	}
	return NewValue("int", text, func(text string) error {
		number, err := strconv.Atoi(text)
		switch {
		case err != nil:
			return err
		case number >= least && number <= most:
			*n = number
			return nil
		case most != math.MaxInt:
			return fmt.Errorf("must be %d to %d", least, most)
		case least == 0:
			return errors.New("must not be negative")
		}
		return fmt.Errorf("must be at least %d", least)
	})
}

// Duration returns the value of a flag for a time such as 30s or 7d, which sets d, which has the default.
func Duration(d *time.Duration) pflag.Value {
	text := func() string {
		if *d == 0 {
			return "0"
		}
		return d.String()
	}
	return NewValue("duration", text, func(text string) (err error) {
		*d, err = ParseDuration(text)
		return err
	})
}

var errDuration = errors.New("must be a time such as 500ms, 30s, 5m, 1h30m or 7d")

// ParseDuration parses what time.ParseDuration does, and days of 24 hours before it; it must not be negative.
func ParseDuration(text string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil && n != 0 && !math.IsNaN(n) && !math.IsInf(n, 0) {
		return 0, fmt.Errorf("no unit; did you mean %ss?", text)
	}
	var days time.Duration
	if before, rest, found := strings.Cut(text, "d"); found {
		number, err := strconv.ParseUint(before, 10, 16)
		if err != nil {
			return 0, errDuration
		}
		if days = time.Duration(number) * 24 * time.Hour; rest == "" {
			return days, nil
		}
		text = rest
	}
	clock, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, errDuration
	case clock < 0:
		return 0, errors.New("must not be negative")
	}
	return days + clock, nil
}

// Choice is a flag that takes one of a few words; String returns the chosen one.
type Choice struct{ pflag.Value }

// NewChoice returns a choice among words; the first is chosen until the flag is set.
func NewChoice(allowed ...string) *Choice {
	word := allowed[0]
	// The help shows WORD after the flag; the words are in the usage text.
	return &Choice{NewValue("WORD", func() string { return word }, func(text string) error {
		if !slices.Contains(allowed, text) {
			return fmt.Errorf("must be %s", OrList(allowed))
		}
		word = text
		return nil
	})}
}

// AddFormat adds --format. The first word is the default.
func AddFormat(cmd *cobra.Command, allowed ...string) *Choice {
	return AddChoice(cmd, "format", "output format:", allowed...)
}

// AddChoice adds a flag that takes one of the allowed words. The first is the default.
func AddChoice(cmd *cobra.Command, name, usage string, allowed ...string) *Choice {
	return addChoiceTo(cmd, cmd.Flags(), name, usage+" "+OrList(allowed), allowed)
}

// addChoiceTo adds the flag to one of the flag sets of cmd, with shell completion.
func addChoiceTo(cmd *cobra.Command, flags *pflag.FlagSet, name, usage string, allowed []string) *Choice {
	c := NewChoice(allowed...)
	flags.Var(c, name, usage)
	complete := cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc(name, complete) // fails only for a flag that does not exist
	return c
}

var errSize = errors.New("must be a number of bytes such as 400M, 1.5G, 64KiB or 1048576")

// ParseSize parses a number of bytes. Units are powers of 1024 as in the kernel; K, KB and KiB are the same, in any
// case.
func ParseSize(text string) (int64, error) {
	number := strings.TrimRightFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	unit := strings.ToLower(strings.TrimSpace(text[len(number):]))
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || value < 0 || strings.ContainsAny(number, "eExXpP_+-") {
		return 0, errSize
	}
	shift := 0
	if unit != "" && unit != "b" {
		i := strings.IndexByte("kmgtpe", unit[0])
		if rest := unit[1:]; i < 0 || !slices.Contains([]string{"", "b", "i", "ib"}, rest) {
			return 0, errSize
		}
		shift = 10 * (i + 1)
	}
	bytes := math.Ldexp(value, shift)
	switch {
	case bytes >= math.MaxInt64:
		return 0, fmt.Errorf("too large: %w", errSize)
	case shift == 0 && bytes != math.Trunc(bytes):
		return 0, errSize
	}
	return int64(math.Round(bytes)), nil
}

// ParseShare parses a number, or a percentage: 1.5 and 150% are the same.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	switch {
	case err != nil || math.IsNaN(value) || math.IsInf(value, 0):
		return 0, errors.New("must be a number such as 0.5, or a percentage such as 50%")
	case percent:
		return value / 100, nil
	}
	return value, nil
}
