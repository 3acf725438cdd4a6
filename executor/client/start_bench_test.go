// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package client_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/internal/testkit"
)

// BenchmarkStart measures the way from nothing to an executor's first answer, with the whole tacho binary named by
// TACHO_BIN. The median is reported: the mean is the machine's noise.
func BenchmarkStart(b *testing.B) {
	binary := os.Getenv("TACHO_BIN")
	if binary == "" {
		b.Skip("TACHO_BIN names no tacho binary: make bench builds one and sets it")
	}
	dir := b.TempDir()
	testkit.Must(b, os.Chmod(dir, 0o700))
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		c, err := client.Start(b.Context(), client.Options{Binary: binary, RuntimeDir: dir, ID: fmt.Sprint(len(times))})
		testkit.Must(b, err)
		times = append(times, time.Since(began))
		b.StopTimer()
		testkit.Must(b, c.Shutdown(b.Context()))
		testkit.Must(b, c.Close())
		b.StartTimer()
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms-median")
}
