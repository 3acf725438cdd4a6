// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

// Device is what a task has read from and written to one block device, by the end of its last process: what it had
// only handed to the kernel by then is not in it.
type Device struct {
	// Number is MAJOR:MINOR.
	Number string `json:"number"`
	// Name is the kernel's, such as sda; absent if the device was gone.
	Name string `json:"name,omitempty"`
	// Layer is true for a device that passes its I/O on to others (device mapper, md, loop). They count it again: a
	// sum over devices leaves out layers.
	Layer        bool  `json:"layer"`
	ReadBytes    int64 `json:"read_bytes"`
	WrittenBytes int64 `json:"written_bytes"`
	// Reads and Writes count operations.
	Reads  int64 `json:"reads"`
	Writes int64 `json:"writes"`
}
