job "j" {
  group "g" {
    task "t" {
      driver = "tacho"
      config {
        command  = "x"
        pid_mode = "host" # refused: Unsupported argument; An argument named "pid_mode" is not expected here.
      }
    }
  }
}
