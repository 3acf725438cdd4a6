// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package version says which build of tacho this is. It is a leaf, so that the executor can say it too.
package version

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// stamped is set by the linker: -X github.com/tachograph/tacho/internal/version.stamped=v1.2.3. Empty in builds by
// "go install" and "go test", which know their module version from the build information.
//
//nolint:gochecknoglobals // the linker can set nothing else; the program only reads it
var stamped string

// unknown is the version of a build without one.
const unknown = "0.0.0-dev"

// String returns the version of this build without a leading v, such as "1.2.3".
func String() string {
	module := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		module = info.Main.Version
	}
	return choose(stamped, module)
}

// choose returns the stamped version, or that of the module, which is "(devel)" if it is not known.
func choose(stamped, module string) string {
	if module == "(devel)" {
		module = ""
	}
	return strings.TrimPrefix(cmp.Or(stamped, module, unknown), "v")
}
