// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package plan is what the two sides of a guest say to each other: the Plan goes in with the
// archive, Messages come out over a virtio port.
package plan

// Path is where the plan lies in the guest, as JSON.
const Path = "/etc/guest.json"

// Port is the device of the virtio port that carries the messages, one JSON object after another.
const Port = "/dev/vport0p1"

// Nobody is the number of the unprivileged user and of its group.
const Nobody = 65534

// Plan is what the guest's init sets up and runs.
type Plan struct {
	Tests    []Test
	Env      []string // NAME=value, beside HOME, PATH, TMPDIR and USER
	Cgroup   string   // "v1", "v2" or "hybrid"
	User     string   // "root" or "nobody"
	Delegate bool     // give the user a cgroup of its own to divide further
	Modules  []string // kernel modules in the guest, in loading order
}

// Test is a test binary; one runs after the other.
type Test struct {
	Argv    []string // its path in the guest and its arguments
	Dir     string   // the folder it runs in
	Outputs []string // files that it writes, to be sent back
}

// Message is one step of a run. Exactly one field is set. Each test ends with its Result.
type Message struct {
	Started bool    `json:",omitempty"` // a test binary has been started
	Output  []byte  `json:",omitempty"` // a piece of its stdout or stderr
	File    *File   `json:",omitempty"` // one of the outputs asked for
	Result  *Result `json:",omitempty"` // the last message of a test
}

// File is a file that the test binary wrote, under the name it has on both sides.
type File struct {
	Path string
	Data []byte
}

// Result is how the run ended.
type Result struct {
	Exit   int    // status of the test binary; 128 plus the number of the signal that killed it
	Signal string `json:",omitempty"` // name of that signal
	Error  string `json:",omitempty"` // why the guest could not run the test binary; Exit means nothing then
}
