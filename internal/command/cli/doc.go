// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package cli is what all commands of tacho share: exit codes, flags and their environment variables, colours, tables,
// and text that is safe to print. It knows no command.
package cli
