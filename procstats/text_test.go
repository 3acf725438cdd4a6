// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestBeside holds that values which differ never read alike beside each other.
func TestBeside(t *testing.T) {
	for _, test := range []struct {
		unit         procstats.Unit
		value, other float64
		want         string
	}{
		{procstats.Seconds, 1.24, 1.24, "1.24 s"},
		{procstats.Seconds, 1.24, 1.3, "1.24 s"},
		{procstats.Seconds, 1.240312, 1.24, "1.24 s (+312 µs)"},
		{procstats.Bytes, 48<<20 - 4096, 48 << 20, "48 MiB (-4 KiB)"},
		{procstats.Time, 1_795_176_000.2, 1_795_176_000.1, "2026-11-20 12:00:00 UTC (+100 ms)"},
	} {
		testkit.Equal(t, test.unit.Beside(test.value, test.other), test.want, "%v beside %v", test.value, test.other)
	}
	for n, want := range map[float64]string{0: "0 runs", 1: "1 run", 12345: "12,345 runs"} {
		testkit.Equal(t, procstats.Counted(n, "run", "runs"), want, "%v", n)
	}
}

func TestUnitText(t *testing.T) {
	const (
		kib = 1 << 10
		mib = 1 << 20
		gib = 1 << 30
	)
	for _, test := range []struct {
		unit  procstats.Unit
		value float64
		want  string
	}{
		{procstats.Time, 1_795_176_000.9, "2026-11-20 12:00:00 UTC"},
		{procstats.Time, -1, procstats.NoValue},
		{procstats.Time, 1e15, procstats.NoValue},
		{procstats.Bytes, 0, "0 B"},
		{procstats.Bytes, math.Copysign(0, -1), "0 B"},
		{procstats.Bytes, 0.3, "<1 B"},
		{procstats.Bytes, 1023, "1023 B"},
		{procstats.Bytes, 1023.5, "1 KiB"},
		{procstats.Bytes, kib, "1 KiB"},
		{procstats.Bytes, 1536, "1.5 KiB"},
		{procstats.Bytes, 9.994 * kib, "9.99 KiB"},
		{procstats.Bytes, 9.996 * kib, "10 KiB"},
		{procstats.Bytes, 99.94 * kib, "99.9 KiB"},
		{procstats.Bytes, 99.96 * kib, "100 KiB"},
		{procstats.Bytes, 1023.4 * kib, "1023 KiB"},
		{procstats.Bytes, 1023.95 * kib, "1 MiB"},
		{procstats.Bytes, 48 * mib, "48 MiB"},
		{procstats.Bytes, gib - 1, "1 GiB"},
		{procstats.Bytes, 3.34 * gib, "3.34 GiB"},
		{procstats.Bytes, -3 * mib, "-3 MiB"},
		{procstats.Bytes, -0.3, ">-1 B"},
		{procstats.Bytes, 1 << 62, "4 EiB"},
		{procstats.Bytes, 1e300, "8.67e+281 EiB"},
		{procstats.Bytes, math.NaN(), procstats.NoValue},
		{procstats.Bytes, math.Inf(1), procstats.NoValue},

		{procstats.BytesPerSecond, 0, "0 B/s"},
		{procstats.BytesPerSecond, 2.5 * mib, "2.5 MiB/s"},

		{procstats.Seconds, 0, "0 s"},
		{procstats.Seconds, 1e-9, "<1 µs"},
		{procstats.Seconds, 0.000_25, "250 µs"},
		{procstats.Seconds, 0.000_999_6, "1 ms"},
		{procstats.Seconds, 0.0123, "12.3 ms"},
		{procstats.Seconds, 0.099_96, "100 ms"},
		{procstats.Seconds, 0.394, "394 ms"},
		{procstats.Seconds, 0.9996, "1 s"},
		{procstats.Seconds, 1.25, "1.25 s"},
		{procstats.Seconds, 59.99, "59.99 s"},
		{procstats.Seconds, 59.996, "1m"},
		{procstats.Seconds, 61.2, "1m1.2s"},
		{procstats.Seconds, 300, "5m"},
		{procstats.Seconds, 600.5, "10m0.5s"},
		{procstats.Seconds, 3599.96, "1h"},
		{procstats.Seconds, 9422, "2h37m2s"},
		{procstats.Seconds, 7202, "2h0m2s"},
		{procstats.Seconds, 86_399.6, "1d"},
		{procstats.Seconds, 90_061, "1d1h1m"},
		{procstats.Seconds, 100 * 86_400, "100d"},
		{procstats.Seconds, 1e10, "115,741d"},
		{procstats.Seconds, 1e300, "1.16e+295d"},
		{procstats.Seconds, -0.5, "-500 ms"},
		{procstats.Seconds, -90, "-1m30s"},
		{procstats.Seconds, -1e-9, ">-1 µs"},

		{procstats.Cores, 0, "0.00 cores"},
		{procstats.Cores, 0.0001, "<0.001 cores"},
		{procstats.Cores, -0.0001, ">-0.001 cores"},
		{procstats.Cores, 0.012, "0.012 cores"},
		{procstats.Cores, 0.0996, "0.10 cores"},
		{procstats.Cores, 1, "1.00 cores"},
		{procstats.Cores, 99.996, "100.0 cores"},
		{procstats.Cores, -1.5, "-1.50 cores"},

		{procstats.Share, 0, "0 %"},
		{procstats.Share, 0.0001, "<0.1 %"},
		{procstats.Share, -0.0001, ">-0.1 %"},
		{procstats.Share, 0.333_33, "33.3 %"},
		{procstats.Share, 0.9996, "100 %"},
		{procstats.Share, 12, "1200 %"},

		{procstats.None, 0, "0"},
		{procstats.None, 3, "3"},
		{procstats.None, 2.5, "2.5"},
		{procstats.None, 0.001, "<0.01"},
		{procstats.None, 999, "999"},
		{procstats.None, 999.996, "1,000"},
		{procstats.None, 12345, "12,345"},
		{procstats.None, 1234567.8, "1,234,568"},
		{procstats.None, -12345, "-12,345"},
		{procstats.None, 1e18, "1.00e+18"},
		{procstats.None, math.NaN(), procstats.NoValue},
	} {
		testkit.Equal(t, test.unit.Text(test.value), test.want, "%v %v", test.value, test.unit)
	}
}

// TestUnitTextIsNoZero holds, for values of every size, that the text of none but 0 is a 0.
func TestUnitTextIsNoZero(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		value := math.Copysign(math.Pow(10, random.Float64()*24-9), random.Float64()-0.5)
		for _, unit := range []procstats.Unit{
			procstats.Bytes, procstats.BytesPerSecond, procstats.Seconds, procstats.Cores, procstats.Share, procstats.None,
		} {
			if text := unit.Text(value); !strings.ContainsAny(text, "123456789") {
				t.Fatalf("%g %v: %q", value, unit, text)
			}
		}
	}
}

// TestTimes holds that a measurement is shown as a time exactly if it is one.
func TestTimes(t *testing.T) {
	for _, m := range procstats.Table() {
		if since := strings.Contains(m.Help, "since 1970"); since != (m.Unit == procstats.Time) {
			t.Errorf("%s: shown as a time: %v, and its help is %q", m.Name, m.Unit == procstats.Time, m.Help)
		}
	}
	if procstats.Time.Difference() != procstats.Seconds || procstats.Bytes.Difference() != procstats.Bytes {
		t.Error("the difference of two times is a span, and of two sizes a size")
	}
}

func TestAgeText(t *testing.T) {
	for _, test := range []struct {
		age  time.Duration
		want string
	}{
		{-time.Second, "0 s"},
		{999 * time.Millisecond, "0 s"},
		{59*time.Second + 999*time.Millisecond, "59 s"},
		{time.Minute, "1m"},
		{5*time.Minute + 12*time.Second, "5m12s"},
		{time.Hour - 1, "59m59s"},
		{3*time.Hour + 12*time.Minute + 59*time.Second, "3h12m"},
		{24*time.Hour - 1, "23h59m"},
		{52*time.Hour + 59*time.Minute, "2d4h"},
		{math.MaxInt64, "106751d23h"},
	} {
		testkit.Equal(t, procstats.AgeText(test.age), test.want, "%s", test.age)
	}
}
