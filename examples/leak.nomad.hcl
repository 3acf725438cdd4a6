# A service that keeps a little more memory every second, until its limit ends it: its memory rises in the charts, the
# OOM killer comes, the agent restarts it, and its final record says why.
job "leak" {
  type = "service"

  group "app" {
    restart {
      attempts = 100
      interval = "1h"
      delay    = "3s"
      mode     = "delay"
    }

    task "server" {
      driver = "tacho"

      config {
        command = "sh"
        args    = ["-c", "echo listening to nobody; kept=; chunk=$(head -c 524288 /dev/zero | tr '\\0' x); while :; do kept=$kept$chunk; echo \"$${#kept} bytes kept\"; sleep 1; done"]
      }

      env {
        LC_ALL = "C"
      }

      resources {
        cpu    = 100
        memory = 48
      }
    }
  }
}
