// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package job reads job files: the part of Nomad's HCL that one machine supports. It rejects every other block and
// attribute with its place in the file, and ignores none.
//
//	file ──Read──► Job ──► groups ──► tasks, each with the body of its config block
//	                                      └── evaluated at every start, with the variables of that start
package job

import (
	"time"

	"github.com/hashicorp/hcl/v2"
)

// The types of jobs.
const (
	// TypeService jobs run until they are stopped.
	TypeService = "service"
	// TypeBatch jobs run until they have succeeded, or were given up.
	TypeBatch = "batch"
	// TypeSysbatch jobs run once on every node.
	TypeSysbatch = "sysbatch"
	// TypeSystem jobs run on every node until they are stopped.
	TypeSystem = "system"
)

// Job is a job file as it was read. The keys of its JSON are Nomad's; durations are nanoseconds there.
type Job struct {
	ID          string
	Name        string
	Namespace   string
	Region      string
	Type        string
	Priority    int
	Datacenters []string
	Meta        map[string]string `json:",omitempty"`
	Constraints []*Constraint     `json:",omitempty"`
	Groups      []*Group          `json:"TaskGroups"`

	// Notes name what in the file has no effect here.
	Notes []string `json:"TachoNotes,omitempty"`
	// Source is the text of the job file and what its variables were set to.
	Source Source `json:"-"`
	// Places are the positions of its values in the file.
	Places Places `json:"-"`
}

// Source is what a job is read from.
type Source struct {
	// Filename is for messages.
	Filename string
	Text     string
	// Variables are the values of input variables, as text, by name.
	Variables map[string]string `json:",omitempty"`
	// Counts replace those of groups, by name: a job that was scaled.
	Counts map[string]int `json:",omitempty"`
	// Submission is what a client says the job was read from, for display; nil if it is Text.
	Submission *Submission `json:",omitempty"`
}

// Submission is the text from which a client of Nomad read a job. The agent only stores it.
type Submission struct {
	Source, Format string
	// VariableFlags are values of input variables, Variables the text of files with more of them.
	VariableFlags map[string]string
	Variables     string
}

// IsJSON reports whether a job was read from Nomad's JSON.
func (s Source) IsJSON() bool { return s.Filename == jsonFilename }

// Group returns a group by its name, or nil.
func (j *Job) Group(name string) *Group {
	for _, g := range j.Groups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// Group is a set of tasks that are started together, Count times.
type Group struct {
	Name  string
	Count int
	Meta  map[string]string `json:",omitempty"`
	Tasks []*Task
	// Restart is the policy for tasks that have none of their own.
	Restart     Restart       `json:"RestartPolicy"`
	Constraints []*Constraint `json:",omitempty"`
	Ports       []*Port       `json:",omitempty"`
	Reschedule  Reschedule    `json:"ReschedulePolicy,omitzero"`
	// DiskMB is the size of the ephemeral_disk block; 0 without one.
	DiskMB int `json:",omitempty"`

	// Digest tells whether two groups mean the same.
	Digest string `json:"-"`
}

// Task returns a task by its name, or nil.
func (g *Group) Task(name string) *Task {
	for _, t := range g.Tasks {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Task is one command and everything about it.
type Task struct {
	Name, Driver, User string
	// Config is the config block for people: expressions that have a value only at the start stand as in the file.
	Config      map[string]any    `json:",omitempty"`
	Env         map[string]string `json:",omitempty"`
	Meta        map[string]string `json:",omitempty"`
	Resources   Resources
	Restart     Restart `json:"RestartPolicy"`
	KillTimeout time.Duration
	KillSignal  string        `json:",omitempty"`
	Leader      bool          `json:",omitempty"`
	Logs        *Logs         `json:"LogConfig,omitempty"`
	Lifecycle   *Lifecycle    `json:",omitempty"`
	Templates   []*Template   `json:",omitempty"`
	Constraints []*Constraint `json:",omitempty"`

	// Places are where its values stand.
	Places Places `json:"-"`
}

// Resources are the requests and limits of a task.
type Resources struct {
	// CPU is MHz, by which tasks share contended cores; 0 if Cores is set.
	CPU int
	// Cores is the number of cores reserved for the task; 0 for a share of all.
	Cores int `json:",omitempty"`
	// MemoryMB and MemoryMaxMB are in MiB. MemoryMaxMB is 0 if MemoryMB is also the limit, and -1 for no limit.
	MemoryMB    int
	MemoryMaxMB int `json:",omitempty"`
}

// MemoryLimitBytes is the hard limit on the task's memory; 0 for none.
func (r Resources) MemoryLimitBytes() int64 {
	if r.MemoryMaxMB < 0 {
		return 0
	}
	return int64(max(r.MemoryMB, r.MemoryMaxMB)) << 20
}

// Restart is the restart block: see hook.RestartPolicy.
type Restart struct {
	Attempts        int
	Interval, Delay time.Duration
	Mode            string
}

// Logs bound the log files of each of a task's two streams.
type Logs struct {
	Disabled      bool `json:",omitempty"`
	MaxFiles      int
	MaxFileSizeMB int
}

// The hooks of a lifecycle block.
const (
	HookPrestart  = "prestart"
	HookPoststart = "poststart"
	HookPoststop  = "poststop"
)

// Lifecycle says when a task runs beside its group's main tasks.
type Lifecycle struct {
	Hook    string
	Sidecar bool
}

// Template is a file with inline data, rendered before every start.
type Template struct {
	Data         string `json:"EmbeddedTmpl"`
	Destination  string `json:"DestPath"`
	Permissions  string `json:"Perms"`
	LeftDelim    string
	RightDelim   string
	ChangeMode   string
	ChangeSignal string `json:",omitempty"`
	// Env reads the rendered file's NAME=value lines into the task's environment.
	Env bool `json:"Envvars"`
	// ErrMissingKey refuses a key that a map does not have.
	ErrMissingKey bool
	// Range is where the template stands in the job file.
	Range hcl.Range `json:"-"`
}
