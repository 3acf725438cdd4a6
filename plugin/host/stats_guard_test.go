// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// brokenStream gives some messages and then ends with an error.
type brokenStream struct {
	grpc.ClientStream
	ctx      context.Context
	messages int
	code     codes.Code
}

func (s *brokenStream) Context() context.Context { return s.ctx }

func (s *brokenStream) RecvMsg(any) error {
	if s.messages--; s.messages < 0 {
		return status.Error(s.code, "broken")
	}
	return nil
}

// TestStatsGuard has plugins that end when they are asked for statistics, and some that end for other reasons.
func TestStatsGuard(t *testing.T) {
	for name, test := range map[string]struct {
		stream    brokenStream
		processes int
		want      codes.Code
	}{
		"ends at once":          {brokenStream{code: codes.Unavailable}, mostStatsDeaths, codes.Unimplemented},
		"once less":             {brokenStream{code: codes.Unavailable}, mostStatsDeaths - 1, codes.OK},
		"had sent some":         {brokenStream{code: codes.Unavailable, messages: 1}, mostStatsDeaths, codes.OK},
		"has something against": {brokenStream{code: codes.NotFound}, mostStatsDeaths, codes.OK},
	} {
		guard := &statsGuard{}
		for range test.processes {
			p := &Process{}
			var streams []grpc.ClientStream
			for range 3 { // several tasks: one death
				stream, err := guard.open(p, func() (grpc.ClientStream, error) {
					own := test.stream
					own.ctx = t.Context()
					return &own, nil
				})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				streams = append(streams, stream)
			}
			for _, stream := range streams {
				for stream.RecvMsg(nil) == nil {
				}
			}
		}
		_, err := guard.open(&Process{}, func() (grpc.ClientStream, error) { return nil, nil })
		if status.Code(err) != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}
