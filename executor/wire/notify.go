// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

// NotifyFile is a FIFO in an executor's directory. The executor writes a byte into it when an event happens and when the task has
// ended, so that its owner need not stay connected to a task of which nothing is new. One byte can stand for several changes. An
// executor of an older build has none.
const NotifyFile = "notify"
