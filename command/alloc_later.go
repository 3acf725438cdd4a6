// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import "github.com/spf13/cobra"

func newAllocExec() *cobra.Command  { return &cobra.Command{Use: "exec"} }
func newTop() *cobra.Command        { return &cobra.Command{Use: "top", GroupID: groupAgent} }
