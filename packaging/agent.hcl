# Configuration of "tacho agent". All *.hcl files of this folder are read, one over the other, by name.
# "systemctl reload tacho" reads them again: publishing can be turned on and off while tasks run.

data_dir = "/var/lib/tacho"

# Numbers are served to whoever reaches this address. Everything else needs the socket in data_dir, or a token:
# acl { token_file = "/etc/tacho.token" }
bind_addr = "127.0.0.1"

ports {
  http = 4656
}

telemetry {
  # Read what tasks use. Without it no task is ever read, except at its end.
  publish_allocation_metrics = true
  prometheus_metrics         = true
  collection_interval        = "1s"
}

history {
  span = "15m"
}
