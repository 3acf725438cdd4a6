// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// params reads the parameters of a query. err is what is wrong with the first invalid one.
type params struct {
	values url.Values
	err    error
}

// errInvalid stands for what params say of the value.
var errInvalid = errors.New("invalid")

func paramsOf(r *http.Request) *params { return &params{values: r.URL.Query()} }

// param reads one parameter; absent is otherwise.
func param[T any](p *params, name string, otherwise T, must string, parse func(string) (T, error)) T {
	text := p.values.Get(name)
	if text == "" || p.err != nil {
		return otherwise
	}
	value, err := parse(text)
	if err != nil {
		p.err = badRequest(fmt.Sprintf("invalid %s %q: must be %s", name, text, must))
		return otherwise
	}
	return value
}

func (p *params) flag(name string) bool {
	return param(p, name, false, "true or false", strconv.ParseBool)
}

func (p *params) number(name string) uint64 {
	return param(p, name, 0, "a whole number, 0 or more", func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 63) })
}

// duration reads a duration, or seconds.
func (p *params) duration(name string, otherwise time.Duration) time.Duration {
	return param(p, name, otherwise, "a duration such as 10s, 0 or more", func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if seconds, notNumber := strconv.ParseFloat(text, 64); notNumber == nil && seconds < 1e9 {
			d, err = time.Duration(seconds*float64(time.Second)), nil
		}
		if d < 0 {
			return 0, errInvalid
		}
		return d, err
	})
}

// timeForms are how a point in time may be written.
const timeForms = "RFC 3339, seconds since 1970, or an age such as 5m"

// time reads a point in time; zero if it is absent.
func (p *params) time(name string, now time.Time) time.Time {
	return param(p, name, time.Time{}, "a time: "+timeForms, func(text string) (time.Time, error) {
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return at, nil
		}
		if d, err := time.ParseDuration(text); err == nil {
			return now.Add(-d.Abs()), nil
		}
		seconds, err := strconv.ParseFloat(text, 64)
		if !(seconds > 0 && seconds < 1<<33) {
			err = errInvalid
		}
		return time.UnixMicro(int64(seconds * 1e6)), err
	})
}

// either reads one of two words.
func (p *params) either(name, otherwise, a, b string) string {
	return param(p, name, otherwise, a+" or "+b, func(text string) (string, error) {
		if text != a && text != b {
			return "", errInvalid
		}
		return text, nil
	})
}
