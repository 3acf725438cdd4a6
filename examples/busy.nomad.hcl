# A load like that of a build: four short-lived processes at a time, in an endless loop, and a sidecar that writes. Most of the
# CPU time is used by processes that have exited before the next reading; the task's total includes it.
job "busy" {
  type = "service"

  group "work" {
    count = 2

    task "churn" {
      driver = "tacho"

      config {
        command = "sh"
        args    = ["-c", "while :; do for n in 1 2 3 4; do sh -c 'i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done' & done; wait; sleep 0.2; done"]
      }

      resources {
        cpu    = 200
        memory = 32
      }
    }

    task "writer" {
      driver = "tacho"

      config {
        command = "sh"
        args    = ["-c", "n=0; while :; do n=$((n+1)); dd if=/dev/zero of=local/data bs=64k count=16 conv=fsync 2>/dev/null; echo \"wrote data $n times\"; sleep 1; done"]
      }

      lifecycle {
        hook    = "poststart"
        sidecar = true
      }

      resources {
        cpu    = 100
        memory = 32
      }

      logs {
        max_files     = 2
        max_file_size = 1
      }
    }
  }
}
