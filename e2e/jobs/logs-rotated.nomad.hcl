# Writes more than one log file holds.
job "logs-rotated" {
  type = "batch"
  group "main" {
    task "talks" {
      driver = "tacho"
      config {
        command = "sh"
        args    = ["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); echo line $i; done"]
        logs {
          max_files     = 2
          max_file_size = 1
        }
      }
      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
