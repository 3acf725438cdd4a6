# A service that computes, sleeps and writes, a sidecar beside it, and a task that runs before both.
# The job runs on "tacho agent" and on a Nomad cluster with the tacho plugin.
job "hello" {
  type = "service"

  group "hello" {
    task "greet" {
      driver = "tacho"

      lifecycle {
        hook = "prestart"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "cat local/greeting"]
      }

      template {
        data        = "Hello from {{ env \"NOMAD_ALLOC_NAME\" }}\n"
        destination = "local/greeting"
      }

      resources {
        cpu    = 50
        memory = 16
      }
    }

    task "work" {
      driver = "tacho"

      config {
        command = "/bin/sh"
        args = ["-c", <<-EOT
          n=0
          while :; do
            n=$((n + 1))
            echo "round $n"
            i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done
            dd if=/dev/zero of=tmp/file bs=1M count=8 2>/dev/null
            sleep 1
          done
        EOT
        ]
      }

      resources {
        cpu    = 500
        memory = 64
      }
    }

    task "watch" {
      driver = "tacho"

      lifecycle {
        hook    = "poststart"
        sidecar = true
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do date; sleep 5; done"]
      }

      resources {
        cpu    = 50
        memory = 16
      }
    }
  }
}
