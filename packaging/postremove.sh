#!/bin/sh
# A purge also removes the agent's state; a removal does not, and an RPM knows no purge.
set -e
if [ "$1" = purge ]; then
  rm -rf /var/lib/tacho
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
