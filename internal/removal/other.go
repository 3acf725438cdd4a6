// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package removal

import (
	"context"
	"os"
)

// All removes a directory, or another file, with all below it. A path that does not exist is no error.
func All(_ context.Context, path string, _ ...string) error { return os.RemoveAll(path) }
