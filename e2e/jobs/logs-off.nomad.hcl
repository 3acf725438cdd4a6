# Wants no logs.
job "logs-off" {
  type = "batch"
  group "main" {
    task "talks" {
      driver = "tacho"
      logs {
        disabled = true
      }
      config {
        command = "echo"
        args    = ["nobody reads this"]
      }
    }
  }
}
