// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package portable tests tacho as other systems have it: on Linux, with the sources of another Unix (the build tag
// portable), and for Windows, under Wine.
package portable
