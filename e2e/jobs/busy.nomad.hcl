# Keeps one core busy with processes that live for a few milliseconds each.
job "busy" {
  group "main" {
    task "churns" {
      driver = "tacho"
      config {
        command = "sh"
        args    = ["-c", "while :; do sh -c 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done'; done"]
      }
      resources {
        cpu    = 1000
        memory = 64
      }
    }
  }
}
