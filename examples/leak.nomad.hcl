# A service that leaks memory every second until it hits its limit: the charts show its memory rise, the OOM killer ends it,
# the agent restarts it, and its final record says why.
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
