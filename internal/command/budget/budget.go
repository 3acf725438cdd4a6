// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package budget holds records against limits that the user sets. A number that was not measured, or a bound that
// does not decide, fails with that reason: a budget that could not be checked must not pass.
package budget

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

// ExitCode is the exit code of a command if a budget failed and nothing else did.
const ExitCode = 123

// Result is what became of one budget.
type Result struct {
	// Budget is what was to hold: "memory_peak_bytes > 400 MiB".
	Budget string `json:"budget"`
	Failed bool   `json:"failed"`
	// Reason has the numbers: "it is 512 MiB".
	Reason string `json:"reason"`
}

// Report returns the error with ExitCode if a budget failed. Each failure is reported on its own before.
func Report(results []Result, report func(error)) error {
	failed := false
	for _, r := range results {
		if r.Failed {
			report(fmt.Errorf("budget failed: %s: %s", r.Budget, r.Reason))
			failed = true
		}
	}
	if failed {
		return cli.ExitWith(ExitCode, nil)
	}
	return nil
}

// Condition is a number of a record that is compared with a limit; the budget fails if it is true.
type Condition struct {
	Measurement procstats.Measurement
	operator    string
	limit       float64
}

// Parse reads a condition such as "memory_peak > 400M".
func Parse(text string) (Condition, error) { return ParseOf(text, find) }

// ParseOf reads a condition on one of the numbers that find knows.
func ParseOf(text string, find func(name string) (procstats.Measurement, error)) (Condition, error) {
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return Condition{}, errors.New("must be MEASUREMENT > VALUE, such as 'memory_peak > 400M'; also >=, < and <=")
	}
	operator := text[at : at+1]
	value, orEqual := strings.CutPrefix(text[at+1:], "=")
	if orEqual {
		operator += "="
	}
	m, err := find(strings.TrimSpace(text[:at]))
	if err != nil {
		return Condition{}, err
	}
	limit, err := parseValue(m.Unit, strings.TrimSpace(value))
	return Condition{m, operator, limit}, err
}

// String returns the condition as people read it.
func (c Condition) String() string {
	return fmt.Sprintf("%s %s %s", c.Measurement.Name, c.operator, c.Measurement.Unit.Text(c.limit))
}

// Check compares the number of a record.
func (c Condition) Check(r *record.Record) Result {
	v, err := valueOf(r, c.Measurement)
	return c.decide(v, err)
}

// CheckNumber compares a number, unless err says why it is not known.
func (c Condition) CheckNumber(number float64, err error) Result {
	return c.decide(value{number, number}, err)
}

func (c Condition) decide(v value, err error) Result {
	result := Result{Budget: c.String(), Failed: true}
	if err != nil {
		result.Reason = err.Error()
		return result
	}
	atLow, atHigh := c.holds(v.low), c.holds(v.high)
	result.Failed = atLow || atHigh
	result.Reason = "it is " + v.text(c.Measurement.Unit, c.limit)
	if atLow != atHigh {
		result.Reason += ", which does not decide"
	}
	return result
}

func (c Condition) holds(value float64) bool {
	switch c.operator {
	case ">":
		return value > c.limit
	case ">=":
		return value >= c.limit
	case "<":
		return value < c.limit
	}
	return value <= c.limit
}

// Increase is how much more than another run a run may use.
type Increase struct {
	Measurement procstats.Measurement
	most        float64
	relative    bool
}

// ParseIncrease reads the highest increase of a measurement such as "memory_peak=10%" or "wall=2s".
func ParseIncrease(text string) (Increase, error) {
	name, value, found := strings.Cut(text, "=")
	if !found {
		return Increase{}, errors.New("must be MEASUREMENT=VALUE, such as memory_peak=10% or memory_peak=50M")
	}
	m, err := find(strings.TrimSpace(name))
	if err != nil {
		return Increase{}, err
	}
	i := Increase{Measurement: m, relative: strings.HasSuffix(value, "%")}
	if i.relative {
		i.most, err = cli.ParseShare(value)
	} else {
		i.most, err = parseValue(m.Unit, strings.TrimSpace(value))
	}
	if err == nil && i.most < 0 {
		err = fmt.Errorf("%s: must not be negative", value)
	}
	return i, err
}

// String returns the increase as people read it.
func (i Increase) String() string {
	return fmt.Sprintf("%s at most +%s", i.Measurement.Name, i.mostText())
}

func (i Increase) mostText() string {
	if i.relative {
		return procstats.Share.Text(i.most)
	}
	return i.Measurement.Unit.Text(i.most)
}

// Check compares a run with one before it.
func (i Increase) Check(before, after *record.Record) Result {
	result := Result{Budget: i.String(), Failed: true}
	a, errA := valueOf(before, i.Measurement)
	b, errB := valueOf(after, i.Measurement)
	if err := cmp.Or(errA, errB); err != nil {
		result.Reason = err.Error()
		return result
	}
	// The increase is the largest if the run before used the least, and this one the most.
	allowed := func(from float64) float64 {
		if i.relative {
			return from * (1 + i.most)
		}
		return from + i.most
	}
	surely, maybe := b.low > allowed(a.high), b.high > allowed(a.low)
	result.Failed = maybe
	result.Reason = fmt.Sprintf("from %s to %s", a.text(i.Measurement.Unit, b.low), b.text(i.Measurement.Unit, a.low))
	if a.exact() && b.exact() && a.low != 0 {
		result.Reason += " (" + procstats.Share.Signed(b.low/a.low-1) + ")"
	}
	if maybe && !surely {
		result.Reason += ", which does not decide"
	}
	return result
}

// value is what is known of a number: it is not below low and not above high.
type value struct{ low, high float64 }

func (v value) exact() bool { return v.low == v.high }

// text returns the value beside another.
func (v value) text(unit procstats.Unit, other float64) string {
	number, bound := v.low, ""
	switch {
	case v.exact():
	case math.IsInf(v.high, 1):
		bound = "at least "
	default:
		number, bound = v.high, "at most "
	}
	return bound + unit.Beside(number, other)
}

func lookUp(name string) (procstats.Measurement, bool) {
	if name == record.WallName {
		return procstats.Measurement{
			Name: name, Unit: procstats.Seconds, Kind: procstats.Gauge, Guarantee: procstats.Exact,
		}, true
	}
	return procstats.LookupName(name)
}

// find returns the measurement of a name. The unit and the word total may be left out.
func find(word string) (procstats.Measurement, error) {
	suffixes := [...]string{"", "_total", "_bytes", "_bytes_total", "_seconds", "_seconds_total"}
	for _, suffix := range suffixes {
		switch m, known := lookUp(word + suffix); {
		case !known:
		case m.Kind != procstats.Gauge && m.Kind != procstats.Counter:
			return m, fmt.Errorf("%s is not a number", m.Name)
		case m.Scope == procstats.ProcessScope:
			return m, fmt.Errorf("%s is measured of each process, not of a run", m.Name)
		default:
			return m, nil
		}
	}
	names := []string{record.WallName}
	for _, m := range procstats.Table() {
		for _, suffix := range suffixes {
			if name, found := strings.CutSuffix(m.Name, suffix); found {
				names = append(names, name)
			}
		}
	}
	if near := cli.Near(word, names); len(near) > 0 {
		return procstats.Measurement{}, fmt.Errorf("unknown measurement %q; did you mean %s?", word, cli.OrList(near))
	}
	return procstats.Measurement{}, fmt.Errorf("unknown measurement %q (tacho explain lists all)", word)
}

// parseValue reads a number in a unit: 400M, 30s, 1.5, 50%.
func parseValue(unit procstats.Unit, text string) (float64, error) {
	var number float64
	var err error
	switch unit {
	case procstats.Bytes, procstats.BytesPerSecond:
		var bytes int64
		bytes, err = cli.ParseSize(text)
		number = float64(bytes)
	case procstats.Cores, procstats.Share:
		number, err = cli.ParseShare(text)
	case procstats.Seconds:
		if number, err = strconv.ParseFloat(text, 64); err != nil {
			var span time.Duration
			span, err = cli.ParseDuration(text)
			number = span.Seconds()
		}
	case procstats.None, procstats.Time:
		if number, err = strconv.ParseFloat(text, 64); err != nil {
			err = errors.New("must be a number")
		}
	}
	if err == nil && unit == procstats.Share && number > 1 && !strings.HasSuffix(text, "%") {
		err = fmt.Errorf("is a share, of which 1 is all; did you mean %s%%?", text)
	}
	if err == nil && (math.IsNaN(number) || math.IsInf(number, 0)) { // no comparison with them says that a budget failed
		err = errors.New("must be a finite number")
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", text, err)
	}
	return number, nil
}

// valueOf returns what a record knows of a number, or why it knows nothing.
func valueOf(r *record.Record, m procstats.Measurement) (value, error) {
	if r.State != record.Exited {
		return value{}, fmt.Errorf("the run is %s, and its record is not complete", r.State)
	}
	switch number := r.Number(m.Name); {
	case number.Value == nil:
		return value{}, fmt.Errorf("not measured: %s", number.Reason)
	case number.Guarantee == procstats.LowerBound:
		return value{*number.Value, math.Inf(1)}, nil
	case number.Guarantee == procstats.UpperBound:
		return value{math.Inf(-1), *number.Value}, nil
	default:
		return value{*number.Value, *number.Value}, nil
	}
}
