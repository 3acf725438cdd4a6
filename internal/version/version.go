// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package version says which build of tacho this is. It is a leaf, so that the executor can say it too.
package version

import (
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

// String returns the version of this build without a leading v, such as "1.2.3" or
// "0.0.0-dev+0123456789ab.dirty".
func String() string {
	if stamped != "" {
		return strings.TrimPrefix(stamped, "v")
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return fromBuild(info)
}

func fromBuild(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return strings.TrimPrefix(v, "v")
	}
	revision, dirty := "", false
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			revision = setting.Value
		case "vcs.modified":
			dirty = setting.Value == "true"
		}
	}
	if revision == "" {
		return unknown
	}
	v := unknown + "+" + revision[:min(12, len(revision))]
	if dirty {
		v += ".dirty"
	}
	return v
}
