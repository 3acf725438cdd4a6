// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package docs runs the commands of the documentation and compares their output with what the pages show.
package docs
