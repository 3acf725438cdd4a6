// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/proto"
)

// platformCommands are the commands that need an executor process.
func platformCommands() []*cobra.Command {
	return []*cobra.Command{newAttach(), newExecutors(), newStop()}
}

// detach leaves the command running and names the run on stdout, for scripts.
func (s *session) detach(launched *proto.LaunchResponse) error {
	how := fmt.Sprintf("tacho attach %s follows it, tacho stop %s ends it", s.id, s.id)
	if s.dir == "" {
		how = fmt.Sprintf("it keeps no record and its output goes nowhere; tacho executors kill %s ends it", s.id)
	}
	s.screen.note(fmt.Sprintf("running as process %d; %s", launched.GetMain().GetPid(), how))
	_, err := fmt.Fprintln(s.cmd.OutOrStdout(), s.id)
	return errors.Join(err, s.client.Close(), s.streams.close())
}
