// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"maps"
	"path/filepath"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"
)

// ConfigBlock is what a task's config block says, for our driver.
type ConfigBlock struct {
	Command string
	Args    []string
	WorkDir string
	// CgroupV2 is the cgroup that the task is put into, CgroupV1 those by controller; one of them at most.
	CgroupV2 string
	CgroupV1 map[string]string
	// OOMScoreAdj is nil if it is not said.
	OOMScoreAdj *int
	DeniedEnv   []string
	Logs        LogLimits
	Measured    Measured
	Rows        RowLimits
}

// rawBlock is TaskSchema as it comes in MessagePack from a host behind a wire, and as a value from one in this process.
type rawBlock struct {
	Command        *string             `codec:"command" cty:"command"`
	Args           []string            `codec:"args" cty:"args"`
	WorkDir        *string             `codec:"work_dir" cty:"work_dir"`
	CgroupV2       *string             `codec:"cgroup_v2_override" cty:"cgroup_v2_override"`
	CgroupV1       []map[string]string `codec:"cgroup_v1_override" cty:"cgroup_v1_override"`
	OOMScoreAdj    *int64              `codec:"oom_score_adj" cty:"oom_score_adj"`
	DeniedEnvvars  []string            `codec:"denied_envvars" cty:"denied_envvars"`
	Logs           *rawLogs            `codec:"logs" cty:"logs"`
	Measurements   *string             `codec:"measurements" cty:"measurements"`
	Network        *string             `codec:"network" cty:"network"`
	Disk           *rawDisk            `codec:"disk" cty:"disk"`
	SamplingBudget *float64            `codec:"sampling_budget" cty:"sampling_budget"`
	ProcessRows    *rawRows            `codec:"process_rows" cty:"process_rows"`
}

// decodeBlock reads a task's config block, MessagePack shaped by TaskSchema. Errors wrap ErrInvalid, and name all that
// is wrong.
func decodeBlock(msgpack []byte) (*ConfigBlock, error) {
	var raw rawBlock
	if err := decode(msgpack, &raw); err != nil {
		return nil, fmt.Errorf("read task config: %w", err)
	}
	return raw.check()
}

// ConfigBlockOf reads a task's config block from a value shaped by TaskSchema. Errors wrap ErrInvalid, and name all that
// is wrong.
func ConfigBlockOf(value cty.Value) (*ConfigBlock, error) {
	var raw rawBlock
	if err := gocty.FromCtyValue(value, &raw); err != nil {
		return nil, invalid("read task config: %w", err)
	}
	return raw.check()
}

func (raw *rawBlock) check() (*ConfigBlock, error) {
	b := &ConfigBlock{
		Command: said(raw.Command), Args: raw.Args, WorkDir: said(raw.WorkDir), CgroupV2: said(raw.CgroupV2),
		DeniedEnv: raw.DeniedEnvvars,
	}
	var errs [8]error
	if b.Command == "" {
		errs[0] = invalid("command is empty")
	}
	if b.WorkDir != "" && !filepath.IsAbs(b.WorkDir) {
		errs[1] = invalid("work_dir %q: must be an absolute path", b.WorkDir)
	}
	errs[2] = checkPatterns(b.DeniedEnv)
	if raw.OOMScoreAdj != nil {
		var adj int
		adj, errs[3] = within("oom_score_adj", *raw.OOMScoreAdj, -1000, 1000)
		b.OOMScoreAdj = &adj
	}
	for _, groups := range raw.CgroupV1 {
		if b.CgroupV1 == nil {
			b.CgroupV1 = make(map[string]string, len(groups))
		}
		maps.Copy(b.CgroupV1, groups)
	}
	if b.CgroupV2 != "" && len(b.CgroupV1) > 0 {
		errs[4] = invalid("cgroup_v2_override and cgroup_v1_override are mutually exclusive")
	}
	b.Logs, errs[5] = raw.Logs.limits()
	b.Measured, errs[6] = measured(raw.Measurements, raw.Network, raw.Disk, raw.SamplingBudget)
	b.Rows, errs[7] = raw.ProcessRows.limits()
	if err := joinMistakes(errs[:]...); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *ConfigBlock) overridesCgroup() bool { return b.CgroupV2 != "" || len(b.CgroupV1) > 0 }
