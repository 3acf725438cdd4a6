# Is stopped by its own signal, says goodbye, and notes another signal.
job "signals" {
  group "main" {
    task "listens" {
      driver       = "tacho"
      kill_signal  = "SIGUSR1"
      kill_timeout = "20s"
      config {
        command = "sh"
        args    = ["-c", "trap 'echo goodbye; exit 0' USR1; trap 'echo noted' HUP; echo ready; while :; do sleep 0.1; done"]
      }
    }
  }
}
