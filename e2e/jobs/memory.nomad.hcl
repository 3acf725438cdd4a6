# Needs more memory than it may have, and is killed for it.
job "memory" {
  type = "batch"
  group "main" {
    reschedule {
      attempts  = 0
      unlimited = false
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "grows" {
      driver = "tacho"
      config {
        command = "dd"
        args    = ["if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"]
      }
      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
