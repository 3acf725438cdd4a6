# What tasks find in their environment: of their own, of root, of other users, from templates.
job "environment" {
  type = "batch"
  meta = {
    level       = "job"
    "odd-key.x" = "y"
    "a/b c:d" = "z"
    "é" = "e"
    "9n" = "n"
  }
  group "g" {
    meta {
      level      = "group"
      group_only = "1"
    }
    network {
      port "http" {}
      port "my-db" {}
      port "fixed" {
        static = 21234
      }
      port "to" {
        to = 8080
      }
    }
    task "root" {
      driver = "tacho"
      config {
        command = "/usr/bin/env"
        args    = ["-0"]
      }
      env {
        PLAIN  = "value"
        REFERS = "${NOMAD_TASK_NAME} ${NOMAD_META_LEVEL} ${node.class} ${HOME} ${UNKNOWN}"
        EMPTY  = ""
        OVER   = "block"
      }
      meta {
        level = "task"
      }
      template {
        destination = "local/one.env"
        env         = true
        data        = <<-EOF
          # a comment
          OVER=template
          DOUBLE="a\tb \"c\" \u00e9 $HOME" # behind
          SINGLE='a\tb "c"'
          JOINED=a"b"'c'd
          export EXPORTED=1
          PATHLIKE=a/b#c
          BLANK=
          SPACES =  around  
        EOF
      }
      template {
        destination = "secrets/two.env"
        env         = true
        data        = "SECOND={{ env \"OVER\" }}-{{ env \"DOUBLE\" | toJSON }}"
      }
      resources {
        cpu        = 100
        memory     = 64
        memory_max = 128
      }
    }
    task "nobody" {
      driver = "tacho"
      user   = "nobody"
      config {
        command = "/usr/bin/env"
        args    = ["-0"]
      }
    }
    task "daemon" {
      driver = "tacho"
      user   = "daemon"
      config {
        command = "/usr/bin/env"
        args    = ["-0"]
      }
      env {
        HOME    = "/given"
        LOGNAME = "given"
      }
    }
    task "rooted" {
      driver = "tacho"
      user   = "root"
      config {
        command = "/usr/bin/env"
        args    = ["-0"]
      }
    }
  }
}
