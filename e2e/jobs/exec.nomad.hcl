# Is there for commands that are run in it.
job "exec" {
  group "main" {
    task "waits" {
      driver = "tacho"
      env {
        GREETING = "hello"
      }
      config {
        command = "sleep"
        args    = ["100000"]
      }
    }
  }
}
