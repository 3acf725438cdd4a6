// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	executorproto "github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
)

// MarshalSample returns a sample as the bytes that ride in a host's TaskStats message; nil of nil.
func MarshalSample(s *procstats.Sample) []byte {
	if s == nil {
		return nil
	}
	// Only a string that is not UTF-8 can fail here, and reasons are our own words.
	encoded, err := proto.Marshal(wire.FromSample(s, true))
	if err != nil {
		return nil
	}
	return encoded
}

// UnmarshalSample returns the sample of such bytes; nil of none.
func UnmarshalSample(encoded []byte) (*procstats.Sample, error) {
	if len(encoded) == 0 {
		return nil, nil
	}
	var m executorproto.Sample
	if err := proto.Unmarshal(encoded, &m); err != nil {
		return nil, fmt.Errorf("decode sample: %w", err)
	}
	return wire.ToSample(&m), nil
}
