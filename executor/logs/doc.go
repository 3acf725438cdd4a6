// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package logs writes a task's output to files that are rotated. Each stream is a series of files in one folder,
// <prefix>.stdout.<N> and <prefix>.stderr.<N>, N from 0; the one with the highest number is written to. A task that
// is started again in the same folder continues its series.
//
// Files are rotated between lines: one may be up to 16 KiB longer than its limit so that its last line is whole.
// Only a line that is longer still goes on in the next file. Read one after the other, the files of a series are
// what the task wrote, byte for byte.
//
// The folder belongs to the task as much as to the writer. So nothing in it is trusted: files are opened below a
// descriptor of the folder, symbolic links are not followed, and only a regular file with one link is written to.
// What stands in the way is left alone, and the next number is used.
//
// If a disk or a quota is full the stream is not read until there is room, and its writers wait. With
// DropOnFull bytes are dropped and counted instead. So they are where waiting would not help: after an I/O error,
// or where the folder was removed. Events tell of each of these.
package logs
