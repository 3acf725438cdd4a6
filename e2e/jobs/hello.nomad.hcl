# Starts, writes to both streams, ends well; its logs are read through the agent.
job "hello" {
  type = "batch"
  group "main" {
    task "hello" {
      driver = "tacho"
      config {
        command = "sh"
        args    = ["-c", "echo hello from ${NOMAD_TASK_NAME}; echo and its errors >&2"]
      }
    }
  }
}
