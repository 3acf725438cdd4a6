# Counts, and writes each number to its log and to a file of its own.
job "counts" {
  group "main" {
    task "counts" {
      driver = "tacho"
      config {
        command = "sh"
        args    = ["-c", "i=0; while :; do i=$((i+1)); echo $i; echo $i > local/count; sleep 0.005; done"]
      }
      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
