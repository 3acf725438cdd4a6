# A child of it needs more memory than the task may have and is killed; the task lives on.
job "memory-child" {
  group "main" {
    task "parent" {
      driver = "tacho"
      config {
        command = "sh"
        args    = ["-c", "dd if=/dev/zero of=/dev/null bs=200M count=1; echo child ended with $?; exec sleep 1000"]
      }
      resources {
        cpu        = 100
        memory     = 16
        memory_max = 32
      }
    }
  }
}
