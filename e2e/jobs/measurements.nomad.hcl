# Fills its directory, and selects its size and its proportional memory beyond what is measured by default.
job "measurements" {
  group "main" {
    task "fills" {
      driver = "tacho"
      config {
        command      = "sh"
        args         = ["-c", "i=0; while [ $i -lt 15 ]; do head -c 1048576 /dev/zero > local/$i; i=$((i+1)); sleep 0.3; done; echo full; exec sleep 1000"]
        measurements = "default,smaps"
        disk {
          interval = "1s"
        }
      }
      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
