#!/bin/sh
# An upgrade does not stop the agent; postinstall restarts it.
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now tacho.service
fi
