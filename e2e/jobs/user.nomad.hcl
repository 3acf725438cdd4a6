# Runs as somebody else.
job "user" {
  type = "batch"
  group "main" {
    task "asks" {
      driver = "tacho"
      user   = "nobody"
      env {
        LOGNAME = "mine"
      }
      config {
        command = "sh"
        args    = ["-c", "id -un; echo $HOME $USER $LOGNAME"]
      }
    }
  }
}
