#!/bin/sh
# An upgrade leaves the agent alone; postinstall starts the new one.
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now tacho.service
fi
