// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"math"
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/proto"
)

func TestCheckLimits(t *testing.T) {
	for name, test := range map[string]struct {
		limits *proto.Limits
		want   string // in the error; empty for none
	}{
		"nothing":                {limits: &proto.Limits{}},
		"all":                    {limits: &proto.Limits{MemoryMaxBytes: new(int64(1 << 20)), MemoryHighBytes: new(int64(1 << 20)), MemorySwapMaxBytes: new(int64(0)), CpuCores: new(1.5), CpuWeight: new(int64(1)), PidsMax: new(int64(1))}},
		"memory below a page":    {&proto.Limits{MemoryMaxBytes: new(int64(4095))}, "memory limit 4095: must be at least 4096 bytes"},
		"high below a page":      {&proto.Limits{MemoryHighBytes: new(int64(0))}, "memory.high 0"},
		"negative swap":          {&proto.Limits{MemorySwapMaxBytes: new(int64(-1))}, "swap limit -1"},
		"quota below the range":  {&proto.Limits{CpuCores: new(0.0009)}, "must be at least 0.001 cores"},
		"quota that is none":     {&proto.Limits{CpuCores: new(math.NaN())}, "must be at least 0.001 cores"},
		"quota above the range":  {&proto.Limits{CpuCores: new(1e9)}, "must be at most 175921860 cores"},
		"infinite quota":         {&proto.Limits{CpuCores: new(math.Inf(1))}, "must be at most"},
		"weight below the range": {&proto.Limits{CpuWeight: new(int64(0))}, "must be 1 to 10000"},
		"weight above the range": {&proto.Limits{CpuWeight: new(int64(10001))}, "must be 1 to 10000"},
		"shares below the range": {&proto.Limits{CpuShares: new(int64(1))}, "must be 2 to 262144"},
		"weight and shares":      {&proto.Limits{CpuWeight: new(int64(1)), CpuShares: new(int64(2))}, "set only one"},
		"no process at all":      {&proto.Limits{PidsMax: new(int64(0))}, "limit on processes 0: must be at least 1"},
		"device that is none":    {&proto.Limits{Io: []*proto.IOLimit{{Device: "sda", ReadBytesPerSecond: new(int64(1))}}}, `"sda" is not major:minor`},
		"device with more":       {&proto.Limits{Io: []*proto.IOLimit{{Device: "8:0 rbps=1", ReadBytesPerSecond: new(int64(1))}}}, "is not major:minor"},
		"device with zeros":      {&proto.Limits{Io: []*proto.IOLimit{{Device: "08:0", ReadBytesPerSecond: new(int64(1))}}}, "is not major:minor"},
		"device without limits":  {&proto.Limits{Io: []*proto.IOLimit{{Device: "8:0"}}}, "none of rbps, wbps, riops, wiops is set"},
		"device with limit zero": {&proto.Limits{Io: []*proto.IOLimit{{Device: "8:0", WriteOperationsPerSecond: new(int64(0))}}}, "wiops 0: must be at least 1"},
		"device":                 {&proto.Limits{Io: []*proto.IOLimit{{Device: "254:16", WriteOperationsPerSecond: new(int64(1))}}}, ""},
	} {
		err := check(test.limits, 4096)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestWeightsKeepTheirRatio(t *testing.T) {
	for _, test := range []struct {
		limits         *proto.Limits
		weight, shares int64
	}{
		{&proto.Limits{CpuWeight: new(int64(100))}, 100, 1024},
		{&proto.Limits{CpuShares: new(int64(1024))}, 100, 1024},
		{&proto.Limits{CpuWeight: new(int64(50))}, 50, 512},
		{&proto.Limits{CpuShares: new(int64(512))}, 50, 512},
		{&proto.Limits{CpuWeight: new(int64(1))}, 1, 10},
		{&proto.Limits{CpuWeight: new(int64(10000))}, 10000, 102400},
		{&proto.Limits{CpuShares: new(int64(2))}, 1, 2},               // 0.2 on v2's scale
		{&proto.Limits{CpuShares: new(int64(262144))}, 10000, 262144}, // 25600 on v2's scale
	} {
		asked, weight, ok := weightOf(test.limits)
		if weight != test.weight || !ok || math.Abs(asked*1024/100-float64(test.shares)) > 0.5 {
			t.Errorf("shares %d: weight %d (asked %v), want %d", test.shares, weight, asked, test.weight)
		}
		if _, shares, ok := sharesOf(test.limits); shares != test.shares || !ok {
			t.Errorf("weight %d: shares %d, want %d", test.weight, shares, test.shares)
		}
	}
	none := &proto.Limits{}
	if _, _, ok := weightOf(none); ok {
		t.Error("no weight was asked for, and there is one")
	}
	if _, _, ok := sharesOf(none); ok {
		t.Error("no shares were asked for, and there are some")
	}
}

func TestQuota(t *testing.T) {
	for _, test := range []struct {
		cores         float64
		quota, period int64
	}{
		{1, 100_000, 100_000},
		{0.5, 50_000, 100_000},
		{1.5, 150_000, 100_000},
		{64, 6_400_000, 100_000},
		{1.0 / 3, 33_333, 100_000},
		{0.01, 1000, 100_000},
		{0.009, 9000, 1_000_000},
		{0.001, 1000, 1_000_000},
	} {
		if quota, period := quota(test.cores); quota != test.quota || period != test.period {
			t.Errorf("%v cores: %d per %d, want %d per %d", test.cores, quota, period, test.quota, test.period)
		}
	}
}
