// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats/kernel"
)

// launchRequest returns what an executor is told to start.
func (d *Tacho) launchRequest(task *TaskConfig, b *ConfigBlock, config Config) (*proto.LaunchRequest, error) {
	if len(task.Mounts) > 0 {
		return nil, fmt.Errorf("task %s has mounts: a task of this driver sees the host's file system: %w", task.Name,
			ErrNotSupported)
	}
	settings := b.or(config.Settings)
	r := &proto.LaunchRequest{
		Id:      executorID(task),
		Args:    b.Args,
		Env:     environment(task, settings.DeniedEnv),
		Dir:     cmp.Or(b.WorkDir, taskDir(task)),
		User:    task.User,
		Record:  &proto.RecordOptions{},
		DiskDir: taskDir(task),
		MaxRows: uint32(*settings.MaxRows),
		Labels: map[string]string{
			"alloc_id": task.AllocID, "job": task.JobName, "task_group": task.TaskGroupName, "task": task.Name,
			"namespace": task.Namespace, "node": task.NodeName,
		},
		CommandLine: append([]string{b.Command}, b.Args...),
	}
	hasPath := slices.ContainsFunc(r.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	r.Command = findCommand(b.Command, taskDir(task), hasPath)
	if err := b.allowedBy(config); err != nil {
		return nil, err
	}
	r.OomScoreAdj = oomScoreAdj(b, d.host)
	if network := task.Network; network != nil && network.Mode != NetworkHost {
		r.NetworkNamespace = network.Path
	}
	var err error
	if r.Cgroup, err = placement(d.host, task, b, config); err != nil {
		return nil, err
	}
	if config.Enforce && !b.overridesCgroup() {
		r.Limits = limits(task.Resources)
		// A user who may not make cgroups, mostly any but root, gets the task without its limits and a note that says
		// so; to root a limit that cannot be set is an error.
		r.LimitsOptional = r.Limits != nil && os.Geteuid() != 0
	}
	r.Stdio = stdio(task, settings, config)
	settings.measure(r)
	return r, nil
}

// allowedBy refuses what the operator does not allow.
func (b *ConfigBlock) allowedBy(config Config) error {
	if b.OOMScoreAdj != nil && *b.OOMScoreAdj < config.MinOOMScoreAdj {
		return invalid("oom_score_adj %d: below %d, the lowest that the operator allows (min_oom_score_adj)",
			*b.OOMScoreAdj, config.MinOOMScoreAdj)
	}
	return nil
}

// CheckBlock refuses a task's config block that StartTask would refuse here whenever it is called.
func (d *Tacho) CheckBlock(b *ConfigBlock) error {
	if err := b.allowedBy(d.currentConfig()); err != nil || !b.overridesCgroup() {
		return err
	}
	_, err := override(d.host, b)
	return err
}

// executorID names a task's executor, its directory and its cgroup: short, because the path of a socket is, and still
// telling people whose it is.
func executorID(task *TaskConfig) string {
	return executorPrefix(task) + executorSuffix(task.ID)
}

// IsRecordOf reports whether a final record is that of the start with an ID.
func IsRecordOf(record, taskID string) bool {
	return record == taskID || strings.HasSuffix(record, executorSuffix(taskID))
}

// executorSuffix is what the executor of one start ends with.
func executorSuffix(taskID string) string {
	sum := sha256.Sum256([]byte(taskID))
	return hex.EncodeToString(sum[:hashBytes])
}

// executorPrefix is what the executors of all starts of a task have in common.
func executorPrefix(task *TaskConfig) string {
	name, alloc := plain(task.Name), plain(task.AllocID)
	parts := []string{alloc[:min(len(alloc), longestAlloc)], name[:min(len(name), longestName)]}
	return strings.Join(append(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ""), "-")
}

// plain keeps what can stand in the name of a cgroup.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, s)
}

func taskDir(task *TaskConfig) string {
	if task.AllocDir == "" {
		return ""
	}
	return filepath.Join(task.AllocDir, task.Name)
}

// environment is the task's whole environment, sorted, without what is denied.
func environment(task *TaskConfig, denied []string) []string {
	vars := make(map[string]string)
	maps.Copy(vars, task.Env)
	maps.Copy(vars, task.DeviceEnv)
	var env []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !slices.ContainsFunc(denied, func(pattern string) bool { return matches(pattern, name) }) {
			env = append(env, name+"="+vars[name])
		}
	}
	return env
}

// matches reports whether a pattern stands for a name; * stands for anything.
func matches(pattern, name string) bool {
	matched, err := filepath.Match(pattern, name)
	return err == nil && matched
}

// findCommand looks for a command where artifacts and templates are put. Else the executor looks for it in the
// task's PATH, or relative to the working directory; a task without a PATH gets what this process finds in its own.
func findCommand(command, dir string, hasPath bool) string {
	if filepath.IsAbs(command) {
		return command
	}
	for _, path := range []string{filepath.Join(dir, "local", command), filepath.Join(dir, command)} {
		if dir == "" {
			break
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	if strings.Contains(command, "/") || hasPath {
		return command
	}
	if path, err := exec.LookPath(command); err == nil {
		return path
	}
	return command
}

// placement is where the task's cgroup is: where the task says, where the host made one, else where the executor
// finds the best place.
func placement(host kernel.FS, task *TaskConfig, b *ConfigBlock, config Config) (*proto.CgroupPlacement, error) {
	if b.overridesCgroup() {
		return override(host, b)
	}
	p := &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_AUTO, Parent: config.CgroupParent}
	if task.Resources == nil || task.Resources.Linux == nil || task.Resources.Linux.CpusetCgroup == "" {
		return p, nil
	}
	mounts, err := kernel.CgroupMounts(host)
	if err != nil {
		return nil, fmt.Errorf("find cgroup mounts: %w", err)
	}
	v2, ok := v2Mount(mounts, task.Resources.Linux.CpusetCgroup)
	if !ok {
		// On v1 it is of the cpuset controller alone, and the host moves cores in it between tasks.
		if mount, ok := kernel.MountOf(mounts, "cpuset"); ok {
			dir := belowMount(mount.Point, task.Resources.Linux.CpusetCgroup)
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				p.V1 = map[string]string{"cpuset": dir}
			}
		}
		return p, nil
	}
	dir := belowMount(v2, task.Resources.Linux.CpusetCgroup)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		// A host without the right to make cgroups names one that is not there.
		return p, nil
	}
	return &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_GIVEN, V2: dir}, nil
}

// oomScoreAdj is that of a task. A host's own, meant for an agent that must survive, is no task's; but one above 0,
// which containers and services of users have, is inherited: to lower it takes CAP_SYS_RESOURCE,
// proc_pid_oom_score_adj(5).
func oomScoreAdj(b *ConfigBlock, host kernel.FS) *int32 {
	if b.OOMScoreAdj != nil {
		return new(int32(*b.OOMScoreAdj))
	}
	if own, err := kernel.OwnOOMScoreAdj(host); err == nil && own > 0 {
		return nil
	}
	return new(int32)
}

// v2Mount is where a host has made the cgroup of a task: the hierarchy of version 2, which may be mounted several
// times, or at a place of another program's, if no controller of ours is in one of version 1.
func v2Mount(mounts []kernel.CgroupMount, group string) (point string, ok bool) {
	for _, m := range mounts {
		switch {
		case m.Version == 1 && slices.ContainsFunc(m.Controllers, isLimiting):
			return "", false
		case m.Version == 2 && (!ok || strings.HasPrefix(group, m.Point+"/")):
			point, ok = m.Point, true
		}
	}
	return point, ok
}

// isLimiting reports whether hosts and we limit tasks with a controller of version 1.
func isLimiting(controller string) bool {
	return slices.Contains([]string{"cpu", "cpuset", "memory", "pids", "blkio"}, controller)
}

// belowMount is a cgroup's directory, given as a path in the file system or within the hierarchy.
func belowMount(mount, path string) string {
	if path == mount || strings.HasPrefix(path, mount+"/") {
		return filepath.Clean(path)
	}
	return filepath.Join(mount, filepath.Clean("/"+path))
}

// override is the placement that a task's config block asks for: groups that exist, and that other tasks may name too.
func override(host kernel.FS, b *ConfigBlock) (*proto.CgroupPlacement, error) {
	mounts, err := kernel.CgroupMounts(host)
	if err != nil {
		return nil, fmt.Errorf("find cgroup mounts: %w", err)
	}
	p := &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_GIVEN, Shared: true}
	if b.CgroupV2 != "" {
		mount, ok := kernel.MountOf(mounts, "")
		if !ok {
			return nil, invalid("cgroup_v2_override: cgroup v2 is not mounted here")
		}
		p.V2 = belowMount(mount.Point, b.CgroupV2)
		return p, nil
	}
	p.V1 = make(map[string]string, len(b.CgroupV1))
	for controller, path := range b.CgroupV1 {
		mount, ok := kernel.MountOf(mounts, controller)
		if !ok {
			return nil, invalid("cgroup_v1_override: no hierarchy of the controller %q is mounted here", controller)
		}
		p.V1[controller] = belowMount(mount.Point, path)
	}
	return p, nil
}

// limits are those of the job. On v2 the host has set the cpuset of its own cgroup already; there the list is the
// same, and setting it again changes nothing.
func limits(r *Resources) *proto.Limits {
	if r == nil || r.Linux == nil {
		return nil
	}
	l := &proto.Limits{Cpuset: r.Linux.CpusetCPUs}
	if bytes := r.Linux.MemoryLimitBytes; bytes > 0 {
		l.MemoryMaxBytes = &bytes
	}
	if r.Linux.CPUShares > 0 {
		l.CpuShares = new(cgroup.SharesOf(r.Linux.CPUShares))
	}
	if r.Linux.CPUQuota > 0 && r.Linux.CPUPeriod > 0 {
		l.CpuCores = new(float64(r.Linux.CPUQuota) / float64(r.Linux.CPUPeriod))
	}
	return l
}

// stdio is where the task's output goes.
func stdio(task *TaskConfig, settings Settings, config Config) *proto.Stdio {
	if config.LogCollection == LogsByHost {
		return &proto.Stdio{
			Mode: proto.Stdio_MODE_PATHS, StdoutPath: task.StdoutPath, StderrPath: task.StderrPath,
		}
	}
	// The host's way of saying that the user wants no logs.
	if task.StdoutPath == os.DevNull || task.AllocDir == "" {
		return &proto.Stdio{Mode: proto.Stdio_MODE_NULL}
	}
	return &proto.Stdio{Mode: proto.Stdio_MODE_LOGS, Logs: &proto.Logs{
		Dir:          filepath.Join(task.AllocDir, "alloc", "logs"),
		Prefix:       task.Name,
		MaxFileBytes: settings.MaxFileBytes,
		MaxFiles:     uint32(settings.MaxFiles),
		DropOnFull:   config.LogOverflow == LogsDrop,
	}}
}

// defaultStopSignal is what hosts mean where they name none.
const defaultStopSignal = syscall.SIGINT

// CheckSignal refuses a name that is no signal here, with an error that wraps ErrInvalid. Empty is the default.
func CheckSignal(name string) error {
	if name == "" {
		return nil
	}
	_, err := parseSignal(name)
	return err
}

// parseSignal returns the signal of a name such as SIGTERM or term, or of a number.
func parseSignal(name string) (syscall.Signal, error) {
	number, ok := record.ParseSignal(name)
	if !ok {
		return 0, invalid("signal %q: must be a name such as TERM or a number from 1 to 64", name)
	}
	return syscall.Signal(number), nil
}
