// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// CoreSpeed returns the mean speed of the machine's cores in MHz, from /proc/cpuinfo. It is an error where the kernel
// does not say, as on ARM.
func CoreSpeed(fs FS) (mhz float64, err error) {
	text, err := os.ReadFile(filepath.Join(fs.Proc, "cpuinfo"))
	if err != nil {
		return 0, fmt.Errorf("read speed of cores: %w", err)
	}
	return parseCPUInfo(string(text))
}

func parseCPUInfo(text string) (mhz float64, err error) {
	var sum float64
	var cores int
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) != "cpu MHz" {
			continue
		}
		speed, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(speed > 0 && speed <= 1e6) { // NaN is neither
			return 0, fmt.Errorf("cpuinfo: %q is no speed", strings.TrimSpace(line))
		}
		sum += speed
		cores++
	}
	if cores == 0 {
		return 0, fmt.Errorf("cpuinfo: no line says cpu MHz")
	}
	return sum / float64(cores), nil
}
