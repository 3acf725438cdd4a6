// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"time"

	"github.com/tachograph/tacho/driver/schema"
)

// Name is what a job file says: driver = "tacho".
const Name = "tacho"

// HandleVersion is the version of the driver state in the handles of our tasks. Fields are only added under one
// version.
const HandleVersion = 1

// Choices of log_collection and log_overflow.
const (
	// LogsByExecutor has the executor write and rotate the log files.
	LogsByExecutor = "executor"
	// LogsByHost has the host's own collector do it, through FIFOs.
	LogsByHost = "host"
	// LogsBlock lets the task wait while the disk is full.
	LogsBlock = "block"
	// LogsDrop drops, and counts, what a full disk does not take.
	LogsDrop = "drop"
)

// Defaults of the schemas. Those of logs are below a job's own in Nomad, which reserves disk for them and tells a driver
// neither.
const (
	DefaultMaxFiles    = 4
	DefaultMaxFileMiB  = 5
	DefaultProcessRows = 100
	DefaultRowInterval = 10 * time.Second
	// DefaultSamplingBudget is in percent of one core.
	DefaultSamplingBudget = 2
)

// ConfigSchema is the shape of plugin "tacho" { config { … } }.
func ConfigSchema() schema.Spec {
	return schema.Object{
		// If false, no task is started.
		"enabled": withDefault("enabled", "bool", "true"),
		// Limits of jobs are set on their tasks.
		"enforce": withDefault("enforce", "bool", "true"),
		// executor or host.
		"log_collection": withDefault("log_collection", "string", `"`+LogsByExecutor+`"`),
		// block or drop.
		"log_overflow": withDefault("log_overflow", "string", `"`+LogsBlock+`"`),
		"logs":         logsSchema(),
		"process_rows": rowsSchema(),
		// The words of tacho run --measurements.
		"measurements": withDefault("measurements", "string", `"default"`),
		// auto or off.
		"network": withDefault("network", "string", `"`+NetworkAuto+`"`),
		"disk":    diskSchema(),
		// The most of one core that sampling a task may take, in percent.
		"sampling_budget": withDefault("sampling_budget", "number", "2"),
		// Where sockets of executors are; a short path.
		"runtime_dir": schema.Attr{Name: "runtime_dir", Type: "string"},
		// The cgroup below which those of tasks are made, where the host makes none.
		"cgroup_parent": schema.Attr{Name: "cgroup_parent", Type: "string"},
		// Lists such as 0,10-15.
		"denied_host_uids": schema.Attr{Name: "denied_host_uids", Type: "string"},
		"denied_host_gids": schema.Attr{Name: "denied_host_gids", Type: "string"},
		// The lowest oom_score_adj that a job may ask for.
		"min_oom_score_adj": withDefault("min_oom_score_adj", "number", "0"),
		// Names of variables that no task gets; * stands for anything.
		"denied_envvars": schema.Attr{Name: "denied_envvars", Type: "list(string)"},
		"metrics": schema.Block{Name: "metrics", Nested: schema.Object{
			// host:port or unix:/path.
			"address": schema.Attr{Name: "address", Type: "string", Required: true},
		}},
	}
}

// TaskSchema is the shape of a task's config { … }. The keys of raw_exec mean the same here.
func TaskSchema() schema.Spec {
	return schema.Object{
		"command":            schema.Attr{Name: "command", Type: "string", Required: true},
		"args":               schema.Attr{Name: "args", Type: "list(string)"},
		"work_dir":           schema.Attr{Name: "work_dir", Type: "string"},
		"cgroup_v2_override": schema.Attr{Name: "cgroup_v2_override", Type: "string"},
		"cgroup_v1_override": schema.Attr{Name: "cgroup_v1_override", Type: "list(map(string))"},
		"oom_score_adj":      schema.Attr{Name: "oom_score_adj", Type: "number"},
		"denied_envvars":     schema.Attr{Name: "denied_envvars", Type: "list(string)"},
		"logs":               logsSchema(),
		"measurements":       schema.Attr{Name: "measurements", Type: "string"},
		"process_rows":       rowsSchema(),
		"network":            schema.Attr{Name: "network", Type: "string"},
		"disk":               diskSchema(),
		"sampling_budget":    schema.Attr{Name: "sampling_budget", Type: "number"},
	}
}

func withDefault(name, kind, literal string) schema.Spec {
	return schema.Default{Primary: schema.Attr{Name: name, Type: kind}, Default: schema.Literal(literal)}
}

func logsSchema() schema.Spec {
	return schema.Block{Name: "logs", Nested: schema.Object{
		"max_files": schema.Attr{Name: "max_files", Type: "number"},
		// MiB, as in a job's logs block.
		"max_file_size": schema.Attr{Name: "max_file_size", Type: "number"},
	}}
}

func rowsSchema() schema.Spec {
	return schema.Block{Name: "process_rows", Nested: schema.Object{
		// A duration such as 30s: the least time between two sets, unless somebody looks.
		"interval": schema.Attr{Name: "interval", Type: "string"},
		// The most rows of a set; 0 for none.
		"max": schema.Attr{Name: "max", Type: "number"},
	}}
}

func diskSchema() schema.Spec {
	return schema.Block{Name: "disk", Nested: schema.Object{
		// Durations such as 30s.
		"interval": schema.Attr{Name: "interval", Type: "string"},
		"budget":   schema.Attr{Name: "budget", Type: "string"},
	}}
}
