// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package job reads job files: HCL in the shape that Nomad's job files have, as much of it as one machine can carry
// out. What is read and not carried out does not exist: every other block and attribute is refused with its place in
// the file.
//
//	file ──Parse──► Job ──► groups ──► tasks, each with the body of its config block
//	                                      └── evaluated at every start, with the variables of that start
package job
