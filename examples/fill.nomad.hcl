# A task that fills its directory: its page shows the directory grow, and beside the memory of its cgroup the proportional
# memory of its processes. Neither is measured by default.
job "fill" {
  type = "batch"

  group "app" {
    task "writer" {
      driver = "tacho"

      config {
        command = "sh"
        args    = ["-c", "i=0; while [ $i -lt 300 ]; do i=$((i+1)); head -c 1048576 /dev/zero > local/$i; sleep 1; done"]

        measurements = "default,smaps"
        disk {
          interval = "2s"
        }
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
