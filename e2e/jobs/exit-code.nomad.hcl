# Ends with a code of its own, once.
job "exit-code" {
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
    task "fails" {
      driver = "tacho"
      config {
        command = "sh"
        args    = ["-c", "exit 42"]
      }
    }
  }
}
