// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	executorproto "github.com/tachograph/tacho/executor/proto"
	executorwire "github.com/tachograph/tacho/executor/wire"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/procstats"
)

// FromSample returns the message of a sample: Nomad's form, with rates since an earlier one, and the whole sample in a
// field of our own.
func FromSample(id string, s, before *procstats.Sample, coreMHz float64) *drivers.TaskStats {
	stats := TaskStats(id, s, before, coreMHz)
	stats.TachoSample = marshalSample(s)
	return stats
}

// TaskStats returns Nomad's form of a sample, with rates since an earlier one.
func TaskStats(id string, s, before *procstats.Sample, coreMHz float64) *drivers.TaskStats {
	return &drivers.TaskStats{
		Id:                 id,
		Timestamp:          fromTime(s.Wall),
		AggResourceUsage:   ResourceUsage(s, before, coreMHz),
		ResourceUsageByPid: ProcessUsage(s, before, coreMHz),
	}
}

// ToSample returns the sample in our own field of a message, which is empty in one from a driver of others.
func ToSample(m *drivers.TaskStats) (*procstats.Sample, error) {
	var sample executorproto.Sample
	if err := proto.Unmarshal(m.GetTachoSample(), &sample); err != nil {
		return nil, fmt.Errorf("decode tacho_sample: %w: %w", err, driver.ErrInvalid)
	}
	return executorwire.ToSample(&sample), nil
}

func marshalSample(s *procstats.Sample) []byte {
	// Only a string that is not UTF-8 can fail here, and reasons are our own words.
	encoded, err := proto.Marshal(executorwire.FromSample(s, true))
	if err != nil {
		return nil
	}
	return encoded
}
