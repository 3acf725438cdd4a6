# Runs as somebody else.
job "user" {
  type = "batch"
  group "main" {
    task "asks" {
      driver = "tacho"
      user   = "nobody"
      config {
        command = "id"
        args    = ["-un"]
      }
    }
  }
}
