// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

// DecodeBlock is how a config block is read that comes over a wire.
var DecodeBlock = decodeBlock
