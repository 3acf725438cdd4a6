// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

// Logger takes messages with pairs of keys and values. Both slog.Logger and hclog.Logger are one.
type Logger interface {
	Debug(msg string, args ...any)
	Error(msg string, args ...any)
}

// silent is the logger of those who gave none.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Error(string, ...any) {}

func loggerOr(l Logger) Logger {
	if l == nil {
		return silent{}
	}
	return l
}
