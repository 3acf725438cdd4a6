# Configuration of "tacho agent". All *.hcl files in this directory are read in the order of their names; later ones
# override earlier ones.
# "systemctl reload tacho" reads them again: publishing can be turned on and off while tasks run.

data_dir = "/var/lib/tacho"

# Every caller that can reach this address can read numbers. Everything else requires the socket in data_dir, or a token:
# acl { token_file = "/etc/tacho.token" }
bind_addr = "127.0.0.1"

ports {
  http = 4656
}

telemetry {
  # Read what tasks use while they run. If false, a task is read only at its start and end.
  publish_allocation_metrics = true
  prometheus_metrics         = true
  collection_interval        = "1s"
}

history {
  span = "15m"
}
