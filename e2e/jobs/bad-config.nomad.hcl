# Misspells a key of the driver's config.
job "bad-config" {
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
    task "misspells" {
      driver = "tacho"
      config {
        comand = "true"
      }
    }
  }
}
