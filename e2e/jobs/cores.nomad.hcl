# Has a core of its own.
job "cores" {
  type = "batch"
  group "main" {
    task "alone" {
      driver = "tacho"
      config {
        command = "grep"
        args    = ["Cpus_allowed_list", "/proc/self/status"]
      }
      resources {
        cores  = 1
        memory = 20
      }
    }
  }
}
