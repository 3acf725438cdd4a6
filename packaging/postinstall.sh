#!/bin/sh
# The unit is not enabled: whoever installs a package did not ask for an open port yet.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # After an upgrade the new agent takes up the tasks of the old one.
  systemctl try-restart tacho.service
fi
