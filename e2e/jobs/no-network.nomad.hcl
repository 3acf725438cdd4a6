# Is in a network namespace of its group's own, without any interface but lo.
job "no-network" {
  type = "batch"
  group "main" {
    network {
      mode = "none"
    }
    task "alone" {
      driver = "tacho"
      config {
        command = "sh"
        args    = ["-c", "tail -n +3 /proc/net/dev | cut -d : -f 1 | tr -d ' '"]
      }
    }
  }
}
