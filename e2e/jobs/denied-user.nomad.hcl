# Would run as a user whom the operator denies to tasks (see the agent's denied_host_uids).
job "denied-user" {
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
    task "denied" {
      driver = "tacho"
      user   = "games"
      config {
        command = "id"
      }
    }
  }
}
