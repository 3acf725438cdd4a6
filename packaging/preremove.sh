#!/bin/sh
# An upgrade does not stop the agent; postinstall restarts it. A removal ends its tasks as well: without the program no
# command would be left to stop them, and a purge removes their directories.
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then # deb, rpm
  if [ -d /run/systemd/system ]; then
    systemctl disable --now tacho.service
  fi
  /usr/bin/tacho executors kill --agent
fi
