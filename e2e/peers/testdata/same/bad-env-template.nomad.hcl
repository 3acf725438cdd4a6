job "bad-env-template" {
  type = "batch"
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "t" {
      driver = "tacho"
      config {
        command = "/bin/true"
      }
      template {
        destination = "local/x.env"
        env         = true
        data        = "GOOD=1\n{{ env \"NOMAD_TASK_NAME\" }} no value\n"
      }
    }
  }
}
