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

// OwnOOMScoreAdj is how much this process is spared or preferred by the OOM killer, -1000 to 1000: /proc/self/oom_score_adj,
// proc_pid_oom_score_adj(5), since Linux 2.6.36.
func OwnOOMScoreAdj(fs FS) (int, error) {
	path := filepath.Join(fs.Proc, "self", "oom_score_adj")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err //nolint:wrapcheck // it names the operation and the file
	}
	adj, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || adj < -1000 || adj > 1000 {
		return 0, fmt.Errorf("read %s: %q is not in -1000 to 1000", path, text)
	}
	return adj, nil
}
